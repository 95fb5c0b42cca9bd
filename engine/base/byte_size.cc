#include "engine/base/byte_size.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hearth {

namespace {

constexpr std::array<std::pair<absl::string_view, double>, 11> kUnits = {{
    {"", 1},
    {"b", 1},
    {"k", 1024},
    {"kib", 1024},
    {"mib", 1048576},
    {"gib", 1073741824},
    {"tib", 1099511627776},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
}};

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  const auto malformed = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is not a size in bytes such as 512MiB or 1.5GiB"));
  };
  const absl::string_view number =
      text.substr(0, text.find_first_not_of("0123456789."));
  const std::string unit = absl::AsciiStrToLower(
      absl::StripAsciiWhitespace(text.substr(number.size())));
  double value = 0;
  if (!absl::SimpleAtod(number, &value)) return malformed();
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::round(value * factor);
    if (!(bytes < 9.2233720368547e18)) return malformed();
    return static_cast<int64_t>(bytes);
  }
  return malformed();
}

std::string FormatByteSize(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  constexpr std::array<const char*, 6> kNames = {"KiB", "MiB", "GiB",
                                                 "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kNames[unit]);
}

}  // namespace hearth
