#include "client/cli/figures.h"

#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace hearth::cli {

std::string FormatCount(uint64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped.push_back(',');
    grouped.push_back(digits[i]);
  }
  return grouped;
}

std::string Counted(uint64_t count, absl::string_view one,
                    absl::string_view many) {
  if (count == 1) return absl::StrCat("1 ", one);
  return many.empty() ? absl::StrCat(FormatCount(count), " ", one, "s")
                      : absl::StrCat(FormatCount(count), " ", many);
}

std::string FormatLoss(double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= 0.001 && size < 10'000)
             ? absl::StrFormat("%.4f", value)
             : absl::StrFormat("%.4g", value);
}

std::string FormatDuration(double seconds) {
  const int64_t whole = std::llround(seconds);
  const int64_t minutes = whole / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60,
                         whole % 60);
}

std::string FormatDouble(double value) {
  std::array<char, 32> digits;
  const std::to_chars_result end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), end.ptr);
}

std::string FormatTimestamp(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S",
                          absl::FromUnixSeconds(time.seconds()),
                          absl::LocalTimeZone());
}

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + time.nanos() * 1e-9;
}

}  // namespace hearth::cli
