#include "engine/base/trace_parent.h"

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hearth {
namespace {

// Positions and lengths of the parts of a traceparent, in characters.
constexpr size_t kTraceAt = 3;
constexpr size_t kTraceDigits = 32;
constexpr size_t kParentAt = 36;
constexpr size_t kParentDigits = 16;
constexpr size_t kFlagsAt = 53;
constexpr size_t kLength = 55;

bool IsHexadecimal(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           (c >= 'a' && c <= 'f');
  });
}

bool IsZero(absl::string_view text) {
  return text.find_first_not_of('0') == absl::string_view::npos;
}

}  // namespace

std::string TraceIdOf(absl::string_view text) {
  if (text.size() < kLength) return "";
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view trace = text.substr(kTraceAt, kTraceDigits);
  const absl::string_view parent = text.substr(kParentAt, kParentDigits);
  // Later versions may have more behind the flags.
  const bool ends =
      text.size() == kLength || (version != "00" && text[kLength] == '-');
  if (!ends || version == "ff" || text[2] != '-' ||
      text[kParentAt - 1] != '-' || text[kFlagsAt - 1] != '-') {
    return "";
  }
  for (const absl::string_view part :
       {version, trace, parent, text.substr(kFlagsAt, 2)}) {
    if (!IsHexadecimal(part)) return "";
  }
  return IsZero(trace) || IsZero(parent) ? "" : std::string(trace);
}

std::string NewTraceParent() {
  std::random_device random;
  std::string digits;
  do {
    digits.clear();
    for (size_t i = 0; i < (kTraceDigits + kParentDigits) / 8; ++i) {
      absl::StrAppendFormat(&digits, "%08x", random());
    }
  } while (IsZero(digits.substr(0, kTraceDigits)) ||
           IsZero(digits.substr(kTraceDigits)));
  return absl::StrCat("00-", digits.substr(0, kTraceDigits), "-",
                      digits.substr(kTraceDigits), "-00");
}

}  // namespace hearth
