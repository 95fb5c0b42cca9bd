#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {
namespace {

constexpr size_t kMaxLineBytes = 200;

template <typename T>
void ParseLine(const TextLines& lines, Separator separator, size_t count) {
  std::array<T, 8> numbers;
  const auto out = absl::MakeSpan(numbers).first(count);
  const absl::Status status = ParseFields(lines, separator, out);
  std::vector<absl::string_view> fields;
  SplitFields(lines.line(), separator, fields);
  // SplitFields and ParseFields find the same number of fields.
  if (status.ok() && fields.size() != count) __builtin_trap();
}

void ParseEach(const TextLines& lines, Separator separator) {
  std::vector<absl::string_view> fields;
  SplitFields(lines.line(), separator, fields);
  for (size_t i = 0; i < fields.size(); ++i) {
    int64_t number = 0;
    // A field that parses as an integer looks like a number.
    if (ParseField(lines, fields, i, number).ok() &&
        !LooksLikeNumber(fields[i])) {
      __builtin_trap();
    }
  }
}

void ReadText(std::string text, Separator separator, size_t count) {
  auto lines =
      TextLines::Open(io::NewMemoryFile(std::move(text)), kMaxLineBytes);
  if (!lines.ok()) return;
  while (true) {
    const auto more = (*lines)->Next();
    if (!more.ok() || !*more) return;
    if ((*lines)->line().size() > kMaxLineBytes) __builtin_trap();
    ParseLine<int64_t>(**lines, separator, count);
    ParseLine<float>(**lines, separator, count);
    ParseLine<double>(**lines, separator, count);
    ParseEach(**lines, separator);
  }
}

}  // namespace
}  // namespace hearth::ingest

constexpr hearth::ingest::Separator kSeparators[] = {
    hearth::ingest::Separator::kBlank, hearth::ingest::Separator::kComma,
    hearth::ingest::Separator::kSemicolon, hearth::ingest::Separator::kTab};

// Text, plain or compressed; the first byte selects the separator and the
// number of fields in a line.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  hearth::ingest::ReadText(
      std::string(reinterpret_cast<const char*>(data) + 1, size - 1),
      kSeparators[(data[0] >> 3) & 3], data[0] & 7);
  return 0;
}
