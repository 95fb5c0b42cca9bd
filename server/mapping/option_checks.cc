#include "server/mapping/option_checks.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "proto/options/option_table.h"
#include "proto/options/option_value.h"

namespace hearth::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using options::Choice;
using options::Chosen;
using options::Option;
using options::OptionTable;
using options::Path;

// The table of a type of message, made once.
const OptionTable& TableOf(const google::protobuf::Descriptor& type) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto& tables =
      *new std::map<const google::protobuf::Descriptor*, OptionTable>();
  absl::MutexLock lock(&mutex);
  return tables.try_emplace(&type, type).first->second;
}

class Checker {
 public:
  Checker(const std::string& prefix, Message& spec, FieldViolations& violations)
      : prefix_(prefix), spec_(spec), violations_(violations) {}

  void Check() {
    const OptionTable& table = TableOf(*spec_.GetDescriptor());
    for (const Choice& choice : table.choices()) {
      if (IsThere(choice.path)) Choose(choice, table.ChosenIn(spec_));
    }
    chosen_ = table.ChosenIn(spec_);
    for (const Option& option : table.options()) {
      if (!IsThere(option.path)) continue;
      if (options::Applies(option, chosen_)) {
        FillAndCheck(option);
      } else {
        CheckUnset(option);
      }
    }
  }

 private:
  // Whether `path` leads through no repeated message without elements.
  bool IsThere(const Path& path) const {
    for (size_t i = 0; i < path.size(); ++i) {
      const FieldDescriptor& field = *path[i];
      if (field.is_repeated() &&
          field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
          options::Find(Path(path.begin(), path.begin() + i + 1), spec_) ==
              nullptr) {
        return false;
      }
    }
    return true;
  }

  // `chosen` are the choices made so far.
  void Choose(const Choice& choice, const Chosen& chosen) {
    Message& parent = options::Make(choice.path, spec_);
    if (parent.GetReflection()->HasOneof(parent, choice.oneof)) return;
    if (choice.description.required()) {
      violations_.Add(
          Named(choice.FieldPath()),
          absl::StrCat("must be one of ", absl::StrJoin(choice.Names(), ", ")));
      return;
    }
    parent.GetReflection()->MutableMessage(
        &parent, choice.Find(options::DefaultOf(choice, chosen)));
  }

  void FillAndCheck(const Option& option) {
    const std::string default_value = options::DefaultOf(option, chosen_);
    if (!default_value.empty() && !IsSetBySome(option)) {
      // A default is within its bounds: a test sees to it.
      options::SetFromText(option, default_value, spec_).IgnoreError();
    }
    const std::string path = Named(options::ToString(option.path));
    if (option.description.required() && !options::IsSet(option, spec_)) {
      violations_.Add(path, "must be set");
    }
    for (const options::Violation& violation :
         options::CheckBounds(option, spec_)) {
      violations_.Add(violation.index
                          ? absl::StrCat(path, "[", *violation.index, "]")
                          : path,
                      violation.text);
    }
  }

  // Whether the option is set, or another one in its place.
  bool IsSetBySome(const Option& option) const {
    const auto* oneof = option.field().real_containing_oneof();
    if (oneof == nullptr) return options::IsSet(option, spec_);
    const Message* parent =
        options::Find(options::ParentOf(option.path), spec_);
    return parent != nullptr &&
           parent->GetReflection()->HasOneof(*parent, oneof);
  }

  // Defaults may stand where they do not apply: they change nothing. Where the
  // choice is missing, that alone is at fault.
  void CheckUnset(const Option& option) {
    if (!chosen_.contains(
            option.alternatives.front()->real_containing_oneof()) ||
        !options::IsSet(option, spec_) ||
        options::ToText(option, spec_) == options::DefaultOf(option, chosen_)) {
      return;
    }
    violations_.Add(
        Named(options::ToString(option.path)),
        absl::StrCat("must be absent: ",
                     options::WhyNotApplied(option.alternatives, chosen_)));
  }

  std::string Named(const std::string& path) const {
    return absl::StrCat(prefix_, prefix_.empty() ? "" : ".", path);
  }

  const std::string& prefix_;
  Message& spec_;
  FieldViolations& violations_;
  Chosen chosen_;
};

}  // namespace

void FillAndCheckOptions(const std::string& prefix, Message& spec,
                         FieldViolations& violations) {
  Checker(prefix, spec, violations).Check();
}

}  // namespace hearth::server
