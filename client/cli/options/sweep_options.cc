#include "client/cli/options/sweep_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/options/job_options.h"
#include "engine/base/status.h"
#include "proto/options/option_table.h"

namespace hearth::cli {
namespace {

constexpr char kForms[] =
    "is not VALUE,VALUE,... or one of int, uniform and log with :LOW:HIGH, and "
    ":STEPS for a grid";

const options::OptionTable& SweepTable() {
  static const auto& table =
      *new options::OptionTable(*v1::SweepSpec::descriptor());
  return table;
}

// Reads LOW:HIGH or LOW:HIGH:STEPS.
template <typename Range, typename Number>
bool ParseRange(absl::string_view text,
                bool (*parse)(absl::string_view, Number*), Range& range) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Number low = 0;
  Number high = 0;
  uint32_t steps = 0;
  if (parts.size() < 2 || parts.size() > 3 || !parse(parts[0], &low) ||
      !parse(parts[1], &high) ||
      (parts.size() == 3 &&
       (!absl::SimpleAtoi(parts[2], &steps) || steps == 0))) {
    return false;
  }
  range.set_low(low);
  range.set_high(high);
  range.set_steps(steps);
  return true;
}

bool ParseWhole(absl::string_view text, int64_t* number) {
  return absl::SimpleAtoi(text, number);
}

bool ParseReal(absl::string_view text, double* number) {
  return absl::SimpleAtod(text, number);
}

}  // namespace

const std::vector<Flag>& SweepFlags() {
  static const auto& flags = *new std::vector<Flag>(FlagsOf(SweepTable()));
  return flags;
}

std::vector<Flag> SearchFlags() {
  const std::vector<std::string> train = TrainOptionNames();
  const auto* jobs = v1::SweepSpec::descriptor()->FindFieldByName("train");
  std::vector<Flag> flags;
  std::vector<Flag> shared;
  for (Flag flag : SweepFlags()) {
    if (std::find(train.begin(), train.end(), flag.name) == train.end()) {
      flags.push_back(std::move(flag));
      continue;
    }
    std::erase_if(flag.options, [jobs](const options::Option* option) {
      return option->path.front() == jobs;
    });
    if (!flag.options.empty()) shared.push_back(std::move(flag));
  }
  flags.insert(flags.end(), shared.begin(), shared.end());
  return flags;
}

absl::Status AddSpace(const std::string& text, OptionValues& values) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return ValueError({text, "--space"}, "is not NAME=VALUES");
  }
  const std::string name = text.substr(0, equals);
  const OptionValue value = {text.substr(equals + 1),
                             absl::StrCat("--space ", name)};
  if (!values.insert({absl::StrCat(kSpacePrefix, name), value}).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("--space ", name, " is given twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::SweepParameter> ParameterFromText(const std::string& name,
                                                     const OptionValue& value) {
  v1::SweepParameter parameter;
  parameter.set_name(name);
  absl::string_view text = value.text;
  bool good = true;
  if (absl::ConsumePrefix(&text, "int:")) {
    good = ParseRange(text, ParseWhole, *parameter.mutable_integers());
  } else if (absl::ConsumePrefix(&text, "uniform:")) {
    good = ParseRange(text, ParseReal, *parameter.mutable_uniform());
  } else if (absl::ConsumePrefix(&text, "log:")) {
    good = ParseRange(text, ParseReal, *parameter.mutable_log_uniform());
  } else {
    const char separator = absl::StrContains(text, "|") ? '|' : ',';
    for (const absl::string_view one : absl::StrSplit(text, separator)) {
      good = good && !one.empty();
      parameter.mutable_choice()->add_values(std::string(one));
    }
  }
  if (good) return parameter;
  return ValueError(value, kForms);
}

absl::StatusOr<v1::SweepSpec> SweepFromOptions(const OptionValues& values) {
  v1::SweepSpec spec;
  HEARTH_RETURN_IF_ERROR(SetOptions(SweepTable(), SweepFlags(), values, spec));
  for (const auto& [key, value] : values) {
    absl::string_view name = key;
    if (!absl::ConsumePrefix(&name, kSpacePrefix)) continue;
    HEARTH_ASSIGN_OR_RETURN(*spec.add_space(),
                            ParameterFromText(std::string(name), value));
  }
  return spec;
}

std::string NameSweepFlags(absl::string_view message, const v1::SweepSpec& spec,
                           const OptionValues& values) {
  std::string text(message);
  for (int i = 0; i < spec.space_size(); ++i) {
    const auto value =
        values.find(absl::StrCat(kSpacePrefix, spec.space(i).name()));
    const std::string source = value == values.end()
                                   ? absl::StrCat("--space ", i + 1)
                                   : value->second.source;
    const std::string field = absl::StrCat("space[", i, "]");
    text = absl::StrReplaceAll(text, {{field + ".name", source},
                                      {field + ".domain", source},
                                      {field, source}});
  }
  return NameFlags(text, values);
}

}  // namespace hearth::cli
