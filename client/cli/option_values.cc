#include "client/cli/option_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/figures.h"
#include "engine/base/byte_size.h"

namespace hearth::cli {

void OptionReader::Fail(const OptionValue& value, const std::string& what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(value.source, ": \"", value.text, "\" ", what));
}

std::optional<std::string> OptionReader::Text(const std::string& name) {
  const auto value = values_.find(name);
  if (value == values_.end()) return std::nullopt;
  return value->second.text;
}

std::optional<uint64_t> OptionReader::Whole(const std::string& name,
                                            uint64_t low, uint64_t high) {
  const auto value = values_.find(name);
  if (value == values_.end()) return std::nullopt;
  uint64_t number = 0;
  if (absl::SimpleAtoi(value->second.text, &number) && number >= low &&
      number <= high) {
    return number;
  }
  Fail(value->second,
       absl::StrCat("is not a whole number from ", low, " to ", high));
  return std::nullopt;
}

uint32_t OptionReader::PositiveOrDefault(const std::string& name) {
  return static_cast<uint32_t>(
      Whole(name, 1, std::numeric_limits<uint32_t>::max()).value_or(0));
}

std::optional<double> OptionReader::Number(const std::string& name, double low,
                                           bool above) {
  const auto value = values_.find(name);
  if (value == values_.end()) return std::nullopt;
  double number = 0;
  if (absl::SimpleAtod(value->second.text, &number) && std::isfinite(number) &&
      (above ? number > low : number >= low)) {
    return number;
  }
  Fail(value->second,
       absl::StrCat("is not a number ", above ? "above " : "of at least ",
                    FormatDouble(low)));
  return std::nullopt;
}

std::optional<std::vector<int32_t>> OptionReader::Fanouts(
    const std::string& name) {
  const auto value = values_.find(name);
  if (value == values_.end()) return std::nullopt;
  std::vector<int32_t> fanouts;
  for (const absl::string_view part : absl::StrSplit(value->second.text, ',')) {
    int32_t fanout = 0;
    if (!absl::SimpleAtoi(part, &fanout) || fanout < -1 || fanout == 0) {
      Fail(value->second,
           "is not a list of fan-outs such as 10,10,5 (-1 = all neighbors)");
      return std::nullopt;
    }
    fanouts.push_back(fanout);
  }
  return fanouts;
}

std::optional<uint64_t> OptionReader::Bytes(const std::string& name) {
  const auto value = values_.find(name);
  if (value == values_.end()) return std::nullopt;
  const absl::StatusOr<int64_t> bytes = ParseByteSize(value->second.text);
  if (bytes.ok()) return static_cast<uint64_t>(*bytes);
  Fail(value->second, "is not a size such as 512MiB or 4GB");
  return std::nullopt;
}

bool OptionReader::Flag(const std::string& name) {
  return Choice(name, {"true", "false"}, "false") == "true";
}

std::string OptionReader::Choice(const std::string& name,
                                 const std::vector<std::string>& choices,
                                 const std::string& fallback) {
  const auto value = values_.find(name);
  if (value == values_.end()) return fallback;
  const std::string& text = value->second.text;
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    Fail(value->second,
         absl::StrCat("is not one of ", absl::StrJoin(choices, ", ")));
    return fallback;
  }
  return text;
}

void OptionReader::Refuse(const std::string& name, const std::string& why) {
  const auto value = values_.find(name);
  if (value != values_.end()) Fail(value->second, why);
}

}  // namespace hearth::cli
