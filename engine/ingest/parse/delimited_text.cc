#include "engine/ingest/parse/delimited_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/byte_stream.h"

namespace hearth::ingest {

namespace {

constexpr size_t kBufferBytes = 256 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<TextLines>> TextLines::Open(
    std::unique_ptr<io::ReadableFile> file, size_t max_line_bytes,
    uint64_t max_window_bytes) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream,
                          NewTextStream(std::move(file), max_window_bytes));
  return std::make_unique<TextLines>(std::move(stream), max_line_bytes);
}

TextLines::TextLines(std::unique_ptr<ByteStream> stream, size_t max_line_bytes,
                     Part part)
    : stream_(std::move(stream)),
      max_line_bytes_(max_line_bytes),
      buffer_(std::min(kBufferBytes, max_line_bytes + 2)),
      has_begun_(part == Part::kRest) {}

bool TextLines::TakeLine(size_t end, size_t skipped) {
  const char* const start = buffer_.data() + begin_;
  size_t size = end - begin_;
  if (skipped > 0 && size > 0 && start[size - 1] == '\r') --size;
  line_ = absl::string_view(start, size);
  begin_ = end + skipped;
  ++number_;
  return line_.size() <= max_line_bytes_;
}

absl::StatusOr<bool> TextLines::Next() {
  HEARTH_RETURN_IF_ERROR(status_);
  size_t searched = begin_;
  while (true) {
    const void* const found =
        std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    const bool is_last = found == nullptr && is_over_;
    if (is_last && begin_ == end_) return false;
    if (found != nullptr || is_last) {
      const size_t end =
          is_last ? end_
                  : static_cast<size_t>(static_cast<const char*>(found) -
                                        buffer_.data());
      if (TakeLine(end, is_last ? 0 : 1)) return true;
      break;
    }
    // The end of a line may take two bytes beyond the limit.
    const size_t unfinished = end_ - begin_;
    if (unfinished > max_line_bytes_ + 1) {
      ++number_;
      break;
    }
    status_ = Fill();
    HEARTH_RETURN_IF_ERROR(status_);
    searched = begin_ + unfinished;
    if (has_begun_) continue;
    has_begun_ = true;
    status_ = Begin();
    HEARTH_RETURN_IF_ERROR(status_);
    searched = begin_;
  }
  status_ = Error(absl::StrCat("is longer than ", max_line_bytes_, " bytes"));
  return status_;
}

absl::Status TextLines::Fill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    buffer_.resize(std::min(2 * buffer_.size(), max_line_bytes_ + 2));
  }
  const auto space = absl::MakeSpan(buffer_).subspan(end_);
  HEARTH_ASSIGN_OR_RETURN(
      const size_t count,
      stream_->Read(absl::MakeSpan(reinterpret_cast<std::byte*>(space.data()),
                                   space.size())));
  is_over_ = count < space.size();
  end_ += count;
  return absl::OkStatus();
}

absl::Status TextLines::Begin() {
  const absl::string_view head(buffer_.data(), end_);
  HEARTH_RETURN_IF_ERROR(Named(CheckIsText(head), path()));
  has_mark_ = absl::StartsWith(head, kByteOrderMark);
  if (has_mark_) begin_ = kByteOrderMark.size();
  return absl::OkStatus();
}

absl::Status TextLines::Error(absl::string_view problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": line ", number_, ": ", problem));
}

namespace {

// Separator of fields by any number of blanks and tabs.
constexpr char kBlanks = ' ';

/// Takes the fields of a line one by one. A template: for short lines, looking
/// up the separator would take a good part of the time.
template <char kDelimiter>
class FieldScanner {
 public:
  explicit FieldScanner(absl::string_view line)
      : next_(line.data()), end_(line.data() + line.size()) {
    SkipBlanks();
    // A line of blanks has no fields.
    done_ = next_ == end_;
  }

  bool done() const { return done_; }

  /// REQUIRES: !done().
  absl::string_view Take() {
    const char* const start = next_;
    const char* stop = start;
    if constexpr (kDelimiter != kBlanks) {
      while (next_ != end_ && *next_ != kDelimiter) ++next_;
      stop = next_;
      while (stop != start && IsBlank(stop[-1])) --stop;
      done_ = next_ == end_;
      if (!done_) ++next_;
      SkipBlanks();
    } else {
      while (next_ != end_ && !IsBlank(*next_)) ++next_;
      stop = next_;
      SkipBlanks();
      done_ = next_ == end_;
    }
    return absl::string_view(start, static_cast<size_t>(stop - start));
  }

 private:
  static bool IsBlank(char c) {
    return c == ' ' || (c == '\t' && kDelimiter != '\t');
  }

  void SkipBlanks() {
    while (next_ != end_ && IsBlank(*next_)) ++next_;
  }

  const char* next_;
  const char* const end_;
  bool done_ = false;
};

template <typename T>
constexpr const char* NameOf() {
  return std::is_integral_v<T> ? "an integer" : "a number";
}

absl::Status FieldError(const TextLines& lines, size_t index,
                        absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(lines.path(), ": line ",
                                                 lines.number(), ", field ",
                                                 index + 1, ": ", problem));
}

/// Likely cause if a field of the current line is no number; may be empty.
absl::string_view Suspicion(const TextLines& lines, absl::string_view field) {
  if (field.find(';') != absl::string_view::npos) {
    return " (semicolons do not separate fields here)";
  }
  const bool is_word =
      !field.empty() &&
      std::none_of(field.begin(), field.end(), absl::ascii_isdigit);
  return lines.number() == 1 && is_word ? " (a header?)" : "";
}

// The message does not quote the text: the file may have been named by mistake.
template <typename T>
absl::Status Refuse(const TextLines& lines, absl::string_view field,
                    size_t index, std::errc error) {
  if (error == std::errc::result_out_of_range) {
    return FieldError(lines, index,
                      absl::StrCat("is ", NameOf<T>(), " out of range"));
  }
  return FieldError(
      lines, index,
      absl::StrCat("is not ", NameOf<T>(), Suspicion(lines, field)));
}

/// Whether a number that does not fit is too small rather than too large.
template <typename T>
bool IsTiny(absl::string_view field) {
  if constexpr (std::is_floating_point_v<T>) {
    long double value = 0;
    const auto result =
        std::from_chars(field.data(), field.data() + field.size(), value);
    if (result.ec == std::errc()) return std::fabs(value) < 1;
    // Beyond double's range, too: the sign of the exponent tells.
    return field.find("e-") != absl::string_view::npos ||
           field.find("E-") != absl::string_view::npos;
  }
  return false;
}

/// Handles a field that was not parsed as a whole: 0 for a number too small for
/// its type, otherwise an error.
template <typename T>
ABSL_ATTRIBUTE_NOINLINE absl::Status TakeTiny(const TextLines& lines,
                                              absl::string_view field,
                                              size_t index,
                                              std::from_chars_result result,
                                              T& out) {
  const bool is_whole = result.ptr == field.data() + field.size();
  if (is_whole && result.ec == std::errc::result_out_of_range &&
      IsTiny<T>(field)) {
    out = 0;
    return absl::OkStatus();
  }
  return Refuse<T>(lines, field, index, is_whole ? result.ec : std::errc());
}

template <char kDelimiter, typename T>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status Parse(const TextLines& lines,
                                                       absl::Span<T> out) {
  FieldScanner<kDelimiter> scanner(lines.line());
  for (size_t i = 0; i < out.size(); ++i) {
    if (scanner.done()) {
      return lines.Error(
          absl::StrCat("has ", i, " fields; ", out.size(), " are needed"));
    }
    const absl::string_view field = scanner.Take();
    const char* const end = field.data() + field.size();
    const auto result = std::from_chars(field.data(), end, out[i]);
    if (result.ec == std::errc() && result.ptr == end) continue;
    HEARTH_RETURN_IF_ERROR(TakeTiny(lines, field, i, result, out[i]));
  }
  if (scanner.done()) return absl::OkStatus();
  return lines.Error(absl::StrCat("has more than ", out.size(), " fields"));
}

template <typename T>
absl::Status Parse(const TextLines& lines, Separator separator,
                   absl::Span<T> out) {
  // The usual separators come first, without a call.
  if (separator == Separator::kBlank) return Parse<kBlanks>(lines, out);
  if (separator == Separator::kComma) return Parse<','>(lines, out);
  return separator == Separator::kTab ? Parse<'\t'>(lines, out)
                                      : Parse<';'>(lines, out);
}

template <char kDelimiter>
void Split(absl::string_view line, std::vector<absl::string_view>& fields) {
  FieldScanner<kDelimiter> scanner(line);
  while (!scanner.done()) fields.push_back(scanner.Take());
}

}  // namespace

void SplitFields(absl::string_view line, Separator separator,
                 std::vector<absl::string_view>& fields) {
  fields.clear();
  switch (separator) {
    case Separator::kComma:
      return Split<','>(line, fields);
    case Separator::kBlank:
      break;
    case Separator::kSemicolon:
      return Split<';'>(line, fields);
    case Separator::kTab:
      return Split<'\t'>(line, fields);
  }
  Split<kBlanks>(line, fields);
}

absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<int64_t> out) {
  return Parse(lines, separator, out);
}

absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<float> out) {
  return Parse(lines, separator, out);
}

absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<double> out) {
  return Parse(lines, separator, out);
}

absl::Status ParseField(const TextLines& lines,
                        absl::Span<const absl::string_view> fields,
                        size_t index, int64_t& out) {
  const absl::string_view field = fields[index];
  const char* const end = field.data() + field.size();
  const auto result = std::from_chars(field.data(), end, out);
  if (result.ec == std::errc() && result.ptr == end) return absl::OkStatus();
  return TakeTiny(lines, field, index, result, out);
}

bool LooksLikeNumber(absl::string_view field) {
  if (!field.empty() && field[0] == '+') field.remove_prefix(1);
  const size_t begin = !field.empty() && field[0] == '-' ? 1 : 0;
  if (field.size() == begin ||
      !(absl::ascii_isdigit(field[begin]) || field[begin] == '.')) {
    return false;
  }
  double value = 0;
  const char* const end = field.data() + field.size();
  return std::from_chars(field.data(), end, value).ptr == end;
}

}  // namespace hearth::ingest
