// Both specs are copied without the options that change no result. Fields that
// differ in the copies are at fault.
#include "server/mapping/resume_checks.h"

#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/options/option_table.h"
#include "server/mapping/field_violations.h"

namespace hearth::server {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using options::Option;
using options::OptionTable;
using options::Path;

// Clears a field, and the message that it leaves empty, unless that is the
// alternative of a choice.
void Clear(const Path& path, Message& root) {
  const Path above = options::ParentOf(path);
  if (options::Find(above, root) == nullptr) return;
  Message& parent = options::Make(above, root);
  parent.GetReflection()->ClearField(&parent, path.back());
  if (!above.empty() && parent.ByteSizeLong() == 0 &&
      above.back()->real_containing_oneof() == nullptr &&
      !above.back()->is_repeated()) {
    Clear(above, root);
  }
}

v1::JobSpec WithoutBudgets(v1::JobSpec spec) {
  static const auto& table = *new OptionTable(*v1::JobSpec::descriptor());
  for (const Option& option : table.options()) {
    if (option.description.changes_no_result()) Clear(option.path, spec);
  }
  return spec;
}

// Notes each field that is different.
class Differences final : public MessageDifferencer::Reporter {
 public:
  explicit Differences(FieldViolations& violations) : violations_(violations) {}

  void ReportAdded(
      const Message&, const Message&,
      const std::vector<MessageDifferencer::SpecificField>& path) override {
    Add(path);
  }
  void ReportDeleted(
      const Message&, const Message&,
      const std::vector<MessageDifferencer::SpecificField>& path) override {
    Add(path);
  }
  void ReportModified(
      const Message&, const Message&,
      const std::vector<MessageDifferencer::SpecificField>& path) override {
    Add(path);
  }

 private:
  void Add(const std::vector<MessageDifferencer::SpecificField>& path) {
    std::string name;
    for (const MessageDifferencer::SpecificField& part : path) {
      if (part.field == nullptr) continue;
      absl::StrAppend(&name, name.empty() ? "" : ".", part.field->name());
      if (part.field->is_repeated()) {
        absl::StrAppend(&name, "[",
                        part.index < 0 ? part.new_index : part.index, "]");
      }
    }
    violations_.Add(name,
                    "may not be changed: the job would have other results");
  }

  FieldViolations& violations_;
};

}  // namespace

absl::Status CheckChangesNoResult(const v1::JobSpec& spec,
                                  const v1::JobSpec& next) {
  FieldViolations violations;
  Differences differences(violations);
  MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&differences);
  differencer.Compare(WithoutBudgets(spec), WithoutBudgets(next));
  return violations.ToStatus();
}

}  // namespace hearth::server
