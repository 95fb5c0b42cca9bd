#include "client/cli/options/job_options.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status.h"
#include "proto/options/command_line.h"
#include "proto/options/option_table.h"
#include "proto/options/option_value.h"

namespace hearth::cli {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using options::Choice;
using options::Chosen;
using options::Option;
using options::OptionTable;
using NamedValues = std::vector<std::pair<std::string, std::string>>;

const OptionTable& TrainTable() {
  static const auto& table = *new OptionTable(*v1::TrainJobSpec::descriptor());
  return table;
}

absl::Status RequireOptions(const std::vector<Flag>& flags,
                            const OptionValues& values) {
  for (const Flag& flag : flags) {
    if (flag.required() && !values.contains(flag.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, " is required: ", flag.Help()));
    }
  }
  return absl::OkStatus();
}

// Makes all choices of `spec`: from `values`, else the default.
absl::Status Choose(const OptionTable& table, const OptionValues& values,
                    Message& spec) {
  for (const Choice& choice : table.choices()) {
    const auto value = values.find(choice.description.flag());
    const bool given = value != values.end();
    const FieldDescriptor* alternative =
        choice.Find(given ? value->second.text
                          : options::DefaultOf(choice, table.ChosenIn(spec)));
    if (alternative == nullptr) {
      return ValueError(
          value->second,
          absl::StrCat(
              "is not one of ", absl::StrJoin(choice.Names(), ", "),
              options::DidYouMean(value->second.text, choice.Names())));
    }
    Message& parent = options::Make(choice.path, spec);
    parent.GetReflection()->MutableMessage(&parent, alternative);
  }
  return absl::OkStatus();
}

// Sets all fields of a common flag, except fields whose own flags are given.
absl::Status SetAll(const Flag& flag, const OptionValues& values,
                    Message& spec) {
  const OptionValue& value = values.at(flag.name);
  for (const Option* option : flag.options) {
    if (values.contains(option->description.flag())) continue;
    const absl::Status status = options::SetFromText(*option, value.text, spec);
    if (!status.ok()) return ValueError(value, status.message());
  }
  return absl::OkStatus();
}

// The field of `flag` to show for `spec`: the first one that is set, else the
// first that applies; null if none applies.
const Option* OptionIn(const Flag& flag, const Chosen& chosen,
                       const Message& spec) {
  const Option* applying = nullptr;
  for (const Option* option : flag.options) {
    if (!options::Applies(*option, chosen)) continue;
    if (options::IsSet(*option, spec)) return option;
    if (applying == nullptr) applying = option;
  }
  return applying;
}

NamedValues OptionsOf(const OptionTable& table, const std::vector<Flag>& flags,
                      const Message& spec) {
  NamedValues out;
  const Chosen chosen = table.ChosenIn(spec);
  for (const Flag& flag : flags) {
    if (flag.common) continue;
    if (flag.choice != nullptr) {
      const auto it = chosen.find(flag.choice->oneof);
      if (it != chosen.end()) out.emplace_back(flag.name, it->second->name());
      continue;
    }
    const Option* option = OptionIn(flag, chosen, spec);
    if (option == nullptr) continue;
    const std::optional<std::string> text = options::ToText(*option, spec);
    if (text) out.emplace_back(flag.name, *text);
  }
  return out;
}

bool IsPathCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains("_.[]/-", c);
}

// The flag of the field that `word` names; `word` if it names none.
std::string NameFlag(absl::string_view word, const OptionValues& values) {
  absl::string_view path = word;
  while (absl::EndsWith(path, ".")) path.remove_suffix(1);
  absl::string_view field = path;
  // An element has the flag of its list.
  if (absl::EndsWith(field, "]")) field = field.substr(0, field.rfind('['));
  if (field.find_first_of("._") == field.npos) return std::string(word);
  const Flag* flag = FlagOfField(TrainFlags(), field);
  if (flag == nullptr) return std::string(word);
  const auto typed = values.find(flag->name);
  return absl::StrCat(typed == values.end() ? absl::StrCat("--", flag->name)
                                            : typed->second.source,
                      word.substr(field.size()));
}

}  // namespace

const std::vector<Flag>& TrainFlags() {
  static const auto& flags = *new std::vector<Flag>(FlagsOf(TrainTable()));
  return flags;
}

std::vector<std::string> TrainOptionNames() {
  std::vector<std::string> names;
  for (const Flag& flag : TrainFlags()) names.push_back(flag.name);
  return names;
}

OptionValues MergeOptions(OptionValues typed, OptionValues from_file) {
  for (const Flag& flag : TrainFlags()) {
    if (!flag.common || !typed.contains(flag.name)) continue;
    for (const Option* option : flag.options) {
      from_file.erase(option->description.flag());
    }
  }
  typed.merge(from_file);
  return typed;
}

absl::Status SetOptions(const OptionTable& table,
                        const std::vector<Flag>& flags,
                        const OptionValues& values, Message& spec) {
  HEARTH_RETURN_IF_ERROR(RequireOptions(flags, values));
  HEARTH_RETURN_IF_ERROR(Choose(table, values, spec));
  const Chosen chosen = table.ChosenIn(spec);
  for (const Flag& flag : flags) {
    const auto value = values.find(flag.name);
    if (value == values.end() || flag.choice != nullptr) continue;
    HEARTH_RETURN_IF_ERROR(flag.common
                               ? SetAll(flag, values, spec)
                               : SetField(flag, value->second, chosen, spec));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::TrainJobSpec> TrainJobFromOptions(
    const OptionValues& values) {
  v1::TrainJobSpec spec;
  HEARTH_RETURN_IF_ERROR(SetOptions(TrainTable(), TrainFlags(), values, spec));
  return spec;
}

NamedValues OptionsOfPrepareJob(const v1::PrepareSpec& spec) {
  static const auto& table = *new OptionTable(*v1::PrepareSpec::descriptor());
  static const auto& flags = *new std::vector<Flag>(FlagsOf(table));
  NamedValues out = OptionsOf(table, flags, spec);
  if (spec.training_only()) out.emplace_back("model", "none");
  return out;
}

NamedValues OptionsOfFeedJob(const v1::FeedSpec& spec) {
  static const auto& table = *new OptionTable(*v1::FeedSpec::descriptor());
  static const auto& flags = *new std::vector<Flag>(FlagsOf(table));
  return OptionsOf(table, flags, spec);
}

NamedValues OptionsOfTrainJob(const v1::TrainJobSpec& spec) {
  return OptionsOf(TrainTable(), TrainFlags(), spec);
}

std::string NameFlags(absl::string_view text, const OptionValues& values) {
  std::string out;
  while (!text.empty()) {
    const auto end =
        std::find_if_not(text.begin(), text.end(), IsPathCharacter);
    const auto length = static_cast<size_t>(end - text.begin());
    out += NameFlag(text.substr(0, length), values);
    text.remove_prefix(length);
    if (text.empty()) break;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

namespace {

const OptionTable& JobTable() {
  static const auto& table = *new OptionTable(*v1::JobSpec::descriptor());
  return table;
}

std::vector<Flag> FindResumeFlags() {
  std::vector<Flag> flags;
  for (const Flag& flag : FlagsOf(JobTable())) {
    if (flag.common || flag.choice != nullptr ||
        !(flag.options.front()->description.changes_no_result() ||
          flag.options.front()->description.may_change_on_resume())) {
      continue;
    }
    flags.push_back(flag);
  }
  return flags;
}

// `flag` with only the fields of jobs of the kind `kind`.
Flag OfKind(const Flag& flag, const FieldDescriptor& kind) {
  Flag narrowed = flag;
  narrowed.options.clear();
  for (const Option* option : flag.options) {
    if (option->path.front() == &kind) narrowed.options.push_back(option);
  }
  return narrowed;
}

}  // namespace

const std::vector<Flag>& ResumeFlags() {
  static const auto& flags = *new std::vector<Flag>(FindResumeFlags());
  return flags;
}

absl::Status ChangeOptions(const OptionValues& values, v1::JobSpec& spec) {
  const FieldDescriptor* kind = spec.GetReflection()->GetOneofFieldDescriptor(
      spec, spec.GetDescriptor()->FindOneofByName("kind"));
  const options::Chosen chosen = JobTable().ChosenIn(spec);
  for (const Flag& flag : ResumeFlags()) {
    const auto value = values.find(flag.name);
    if (value == values.end()) continue;
    const Flag narrowed = kind == nullptr ? Flag() : OfKind(flag, *kind);
    if (narrowed.options.empty()) {
      return ValueError(
          value->second,
          absl::StrCat("is not for a job of kind ",
                       kind == nullptr
                           ? "unknown"
                           : absl::StrReplaceAll(kind->name(), {{"_", "-"}})));
    }
    HEARTH_RETURN_IF_ERROR(SetField(narrowed, value->second, chosen, spec));
  }
  return absl::OkStatus();
}

}  // namespace hearth::cli
