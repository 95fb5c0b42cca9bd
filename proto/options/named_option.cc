#include "proto/options/named_option.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/options/option_value.h"
#include "proto/options/suggestion.h"

namespace hearth::options {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool LeadsThrough(const Option& option, const FieldDescriptor* field) {
  return std::find(option.path.begin(), option.path.end(), field) !=
         option.path.end();
}

absl::Status Choose(const OptionTable& table, const Choice& choice,
                    absl::string_view text, Message& root) {
  const FieldDescriptor* next = choice.Find(std::string(text));
  if (next == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("is not one of ", absl::StrJoin(choice.Names(), ", "),
                     DidYouMean(text, choice.Names())));
  }
  Message& parent = Make(choice.path, root);
  const google::protobuf::Reflection& reflection = *parent.GetReflection();
  const FieldDescriptor* before =
      reflection.GetOneofFieldDescriptor(parent, choice.oneof);
  if (before == next) return absl::OkStatus();
  std::vector<std::pair<std::string, std::string>> shared;
  for (const Option& option : table.options()) {
    if (before == nullptr || !LeadsThrough(option, before) ||
        !IsSet(option, root)) {
      continue;
    }
    const std::optional<std::string> value = ToText(option, root);
    if (value) shared.emplace_back(option.description.flag(), *value);
  }
  reflection.MutableMessage(&parent, next);
  for (const auto& [flag, value] : shared) {
    for (const Option& option : table.options()) {
      if (option.description.flag() != flag || !LeadsThrough(option, next)) {
        continue;
      }
      // Where its bounds differ, the default stands.
      SetFromText(option, value, root).IgnoreError();
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<const FieldDescriptor*> NamedOption::Alternatives() const {
  std::vector<const FieldDescriptor*> all;
  for (const Option* option : options) {
    for (const FieldDescriptor* alternative : option->alternatives) {
      if (std::find(all.begin(), all.end(), alternative) == all.end()) {
        all.push_back(alternative);
      }
    }
  }
  return all;
}

NamedOption FindNamed(const OptionTable& table, absl::string_view name) {
  NamedOption named;
  if (name.empty()) return named;
  for (const Choice& choice : table.choices()) {
    if (choice.description.flag() == name) named.choice = &choice;
  }
  for (const Option& option : table.options()) {
    if (option.description.flag() == name ||
        option.description.common_flag() == name) {
      named.options.push_back(&option);
    }
  }
  return named;
}

absl::Status SetNamed(const OptionTable& table, const NamedOption& named,
                      absl::string_view text, Message& root) {
  if (named.choice != nullptr) return Choose(table, *named.choice, text, root);
  const Chosen chosen = table.ChosenIn(root);
  absl::Status status;
  bool is_set = false;
  for (const Option* option : named.options) {
    if (!Applies(*option, chosen)) continue;
    // A field of its own once; all fields of a common flag.
    if (is_set && option->description.common_flag().empty()) break;
    const absl::Status set = SetFromText(*option, text, root);
    is_set = is_set || set.ok();
    if (!set.ok()) status = set;
  }
  if (is_set) return absl::OkStatus();
  if (!status.ok()) return status;
  return absl::FailedPreconditionError(
      WhyNotApplied(named.Alternatives(), chosen));
}

}  // namespace hearth::options
