#include "server/mapping/request_checks.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "proto/options/option_table.h"
#include "proto/options/option_value.h"

namespace hearth::server {

namespace {

constexpr size_t kMaxNameLength = 128;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

bool IsValidName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), IsNameCharacter) &&
         // Names of unfinished folders; see io::kTemporarySuffix.
         !absl::EndsWith(name, ".tmp");
}

// google.rpc.BadRequest is written field by field, because Debian packages its
// .proto nowhere:
//
//   BadRequest     { repeated FieldViolation field_violations = 1; }
//   FieldViolation { string field = 1; string description = 2; }

namespace {

using google::protobuf::internal::WireFormatLite;

std::string SerializeViolation(const std::string& field,
                               const std::string& description) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    WireFormatLite::WriteString(1, field, &out);
    WireFormatLite::WriteString(2, description, &out);
  }
  return bytes;
}

}  // namespace

void FieldViolations::Add(std::string field, std::string description) {
  if (violations_.size() == kMaxViolations) return;
  violations_.emplace_back(std::move(field), std::move(description));
}

absl::Status FieldViolations::ToStatus(absl::StatusCode code) const {
  if (violations_.empty()) return absl::OkStatus();
  absl::Status status(
      code, absl::StrJoin(
                violations_, "; ", [](std::string* out, const auto& violation) {
                  absl::StrAppend(out, violation.first, ": ", violation.second);
                }));
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    for (const auto& [field, description] : violations_) {
      WireFormatLite::WriteBytes(1, SerializeViolation(field, description),
                                 &out);
    }
  }
  status.SetPayload(kBadRequestTypeUrl, absl::Cord(bytes));
  return status;
}

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using options::Choice;
using options::Chosen;
using options::Option;
using options::OptionTable;
using options::Path;

// Option table of a message type, made once.
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
  // Whether all repeated messages on `path` have elements.
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
      // Defaults are within their bounds; a test checks that.
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

  // Defaults may be set where they do not apply: they change nothing. Where the
  // choice is missing, only the choice is at fault.
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

namespace {

using google::protobuf::Reflection;

bool HasControl(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
}

class RequestChecker {
 public:
  absl::Status Check(const Message& request) {
    CheckMessage(request, "");
    return violations_.ToStatus();
  }

 private:
  void CheckMessage(const Message& message, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const auto& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      violations_.Add(
          path.empty() ? "request" : path,
          absl::StrCat("has field number ", unknown.field(i).number(),
                       ", which this hearthd does not know"));
    }
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string name = PathOf(path, *field);
      if (!field->is_repeated()) {
        CheckValue(message, *field, -1, name);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        CheckValue(message, *field, i, absl::StrCat(name, "[", i, "]"));
      }
    }
  }

  // Path of a field of the message at `path`.
  static std::string PathOf(const std::string& path,
                            const FieldDescriptor& field) {
    if (path.empty() || path == kSpec) return field.name();
    return absl::StrCat(path, ".", field.name());
  }

  // Checks the value of a field, or its element `index`.
  void CheckValue(const Message& message, const FieldDescriptor& field,
                  int index, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const bool repeated = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        CheckMessage(repeated
                         ? reflection.GetRepeatedMessage(message, &field, index)
                         : reflection.GetMessage(message, &field),
                     path);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        CheckEnum(field,
                  repeated
                      ? reflection.GetRepeatedEnumValue(message, &field, index)
                      : reflection.GetEnumValue(message, &field),
                  path);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        if (field.type() == FieldDescriptor::TYPE_BYTES) break;
        if (HasControl(
                repeated ? reflection.GetRepeatedString(message, &field, index)
                         : reflection.GetString(message, &field))) {
          violations_.Add(path, "must have no control characters");
        }
        break;
      default:
        break;
    }
  }

  void CheckEnum(const FieldDescriptor& field, int value,
                 const std::string& path) {
    if (field.enum_type()->FindValueByNumber(value) == nullptr) {
      violations_.Add(path, absl::StrCat("is ", value,
                                         ", which this hearthd does not know"));
    } else if (value == 0 && field.is_repeated()) {
      violations_.Add(path, absl::StrCat("must not be ",
                                         field.enum_type()->value(0)->name()));
    }
  }

  // Field of requests that holds a job's spec.
  static constexpr char kSpec[] = "spec";

  FieldViolations violations_;
};

}  // namespace

absl::Status CheckRequest(const Message& request) {
  return RequestChecker().Check(request);
}

// Compares copies of both specs without the options that change no result.
// Fields that differ in the copies are at fault.

namespace {

using google::protobuf::util::MessageDifferencer;

// Clears a field, and the message that becomes empty by it, unless the message
// is the alternative of a choice.
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
    if (option.description.changes_no_result() ||
        option.description.may_change_on_resume()) {
      Clear(option.path, spec);
    }
  }
  return spec;
}

// Adds a violation for each field that differs.
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
