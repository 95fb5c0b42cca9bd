#include "proto/options/option_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::options {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

// Collects the options below a message, in the order of the proto.
class Walk {
 public:
  Walk(std::vector<Option>& options, std::vector<Choice>& choices)
      : options_(options), choices_(choices) {}

  // Visits a message of `type`; `at` has its path, group and alternatives.
  void Visit(const Descriptor& type, Option at) {
    if (type.options().HasExtension(v1::group)) {
      at.group = type.options().GetExtension(v1::group);
    }
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const OneofDescriptor* oneof = field.real_containing_oneof();
      const bool chosen =
          oneof != nullptr && oneof->options().HasExtension(v1::choice);
      if (chosen && oneof->field(0) == &field) AddChoice(*oneof, at);
      Option below = at;
      below.path.push_back(&field);
      if (IsMessage(field)) {
        // A choice without a flag is not the user's to make: no condition.
        if (chosen && !choices_.back().description.flag().empty()) {
          below.alternatives = {&field};
        }
        Visit(*field.message_type(), std::move(below));
      } else if (field.options().HasExtension(v1::option)) {
        below.description = DescriptionOf(field);
        options_.push_back(std::move(below));
      }
    }
  }

 private:
  void AddChoice(const OneofDescriptor& oneof, const Option& at) {
    choices_.push_back({.description = oneof.options().GetExtension(v1::choice),
                        .path = at.path,
                        .group = at.group,
                        .oneof = &oneof,
                        .position = options_.size()});
  }

  std::vector<Option>& options_;
  std::vector<Choice>& choices_;
};

// Name of the alternative's choice, for `count` alternatives: "strategy",
// "strategies".
std::string KindWord(const FieldDescriptor* alternative, size_t count) {
  std::string kind(alternative->real_containing_oneof()->name());
  if (count == 1) return kind;
  if (absl::EndsWith(kind, "y")) kind.replace(kind.size() - 1, 1, "ie");
  kind.push_back('s');
  return kind;
}

}  // namespace

std::string ToString(const Path& path) {
  std::string text;
  for (const FieldDescriptor* field : path) {
    absl::StrAppend(&text, text.empty() ? "" : ".", field->name(),
                    IsMessage(*field) && field->is_repeated() ? "[0]" : "");
  }
  return text;
}

std::string Choice::FieldPath() const {
  return absl::StrCat(ToString(path), path.empty() ? "" : ".", oneof->name());
}

std::vector<std::string> Choice::Names() const {
  std::vector<std::string> names;
  for (int i = 0; i < oneof->field_count(); ++i) {
    names.emplace_back(oneof->field(i)->name());
  }
  return names;
}

const FieldDescriptor* Choice::Find(const std::string& name) const {
  for (int i = 0; i < oneof->field_count(); ++i) {
    if (oneof->field(i)->name() == name) return oneof->field(i);
  }
  return nullptr;
}

OptionTable::OptionTable(const Descriptor& root) {
  Walk(options_, choices_).Visit(root, Option());
  for (Option& option : options_) {
    for (const std::string& name : option.description.applies_to()) {
      for (const Choice& choice : choices_) {
        const FieldDescriptor* alternative = choice.Find(name);
        // The root may have a choice in several places.
        if (alternative != nullptr &&
            std::find(option.alternatives.begin(), option.alternatives.end(),
                      alternative) == option.alternatives.end()) {
          option.alternatives.push_back(alternative);
        }
      }
    }
  }
}

Chosen OptionTable::ChosenIn(const Message& message) const {
  Chosen chosen;
  for (const Choice& choice : choices_) {
    const Message* parent = Find(choice.path, message);
    if (parent == nullptr) continue;
    const FieldDescriptor* alternative =
        parent->GetReflection()->GetOneofFieldDescriptor(*parent, choice.oneof);
    if (alternative != nullptr) chosen[choice.oneof] = alternative;
  }
  return chosen;
}

v1::Option DescriptionOf(const FieldDescriptor& field) {
  v1::Option own = field.options().GetExtension(v1::option);
  if (own.same_as().empty()) return own;
  const FieldDescriptor* other = field.file()->pool()->FindFieldByName(
      absl::StrCat(field.file()->package(), ".", own.same_as()));
  v1::Option description = DescriptionOf(*other);
  own.clear_same_as();
  description.MergeFrom(own);
  return description;
}

bool Applies(const Option& option, const Chosen& chosen) {
  if (option.alternatives.empty()) return true;
  const auto it =
      chosen.find(option.alternatives.front()->real_containing_oneof());
  if (it == chosen.end()) return false;
  for (const FieldDescriptor* alternative : option.alternatives) {
    if (alternative == it->second) return true;
  }
  return false;
}

std::string AlternativeWords(
    const std::vector<const FieldDescriptor*>& alternatives) {
  std::string text =
      absl::StrCat(KindWord(alternatives.front(), alternatives.size()), " ");
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const bool last = i + 1 == alternatives.size();
    absl::StrAppend(&text, i == 0 ? "" : (last ? " and " : ", "),
                    alternatives[i]->name());
  }
  return text;
}

std::string WhyNotApplied(
    const std::vector<const FieldDescriptor*>& alternatives,
    const Chosen& chosen) {
  // Several alternatives may have one name.
  std::vector<std::string> names;
  for (const FieldDescriptor* alternative : alternatives) {
    const std::string name(alternative->name());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  const FieldDescriptor* first = alternatives.front();
  const auto it = chosen.find(first->real_containing_oneof());
  const std::string kind = KindWord(first, names.size());
  const std::string all = absl::StrJoin(names, ", ");
  if (it == chosen.end()) {
    return absl::StrCat("an option of ", kind, " ", all, " only");
  }
  return absl::StrCat(
      "not an option of ", KindWord(first, 1), " ", it->second->name(), "; ",
      kind, names.size() == 1 ? " that has it: " : " that have it: ", all);
}

Path ParentOf(const Path& path) { return Path(path.begin(), path.end() - 1); }

const Message* Find(const Path& path, const Message& root) {
  const Message* message = &root;
  for (const FieldDescriptor* field : path) {
    const Reflection& reflection = *message->GetReflection();
    if (field->is_repeated()) {
      if (reflection.FieldSize(*message, field) == 0) return nullptr;
      message = &reflection.GetRepeatedMessage(*message, field, 0);
    } else {
      if (!reflection.HasField(*message, field)) return nullptr;
      message = &reflection.GetMessage(*message, field);
    }
  }
  return message;
}

Message& Make(const Path& path, Message& root) {
  Message* message = &root;
  for (const FieldDescriptor* field : path) {
    const Reflection& reflection = *message->GetReflection();
    if (!field->is_repeated()) {
      message = reflection.MutableMessage(message, field);
    } else if (reflection.FieldSize(*message, field) == 0) {
      message = reflection.AddMessage(message, field);
    } else {
      message = reflection.MutableRepeatedMessage(message, field, 0);
    }
  }
  return *message;
}

}  // namespace hearth::options
