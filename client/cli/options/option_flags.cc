#include "client/cli/options/option_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/options/option_value.h"

namespace hearth::cli {
namespace {

using google::protobuf::FieldDescriptor;
using options::Choice;
using options::Option;
using options::OptionTable;
using Alternatives = std::vector<const FieldDescriptor*>;

Flag& FlagNamed(const std::string& name, std::vector<Flag>* flags) {
  for (Flag& flag : *flags) {
    if (flag.name == name) return flag;
  }
  flags->emplace_back().name = name;
  return flags->back();
}

// All alternatives with which one of `options` applies; none if one always
// applies.
Alternatives Union(const std::vector<const Option*>& options) {
  Alternatives all;
  for (const Option* option : options) {
    if (option->alternatives.empty()) return {};
    for (const FieldDescriptor* alternative : option->alternatives) {
      if (std::find(all.begin(), all.end(), alternative) == all.end()) {
        all.push_back(alternative);
      }
    }
  }
  return all;
}

// Whether `alternatives` are all that have options of their own.
bool AreAll(const Alternatives& alternatives) {
  const auto* oneof = alternatives.front()->real_containing_oneof();
  for (int i = 0; i < oneof->field_count(); ++i) {
    const FieldDescriptor* field = oneof->field(i);
    if (!options::DescriptionOf(*field).ignores_others() &&
        std::find(alternatives.begin(), alternatives.end(), field) ==
            alternatives.end()) {
      return false;
    }
  }
  return true;
}

std::string DefaultText(const v1::Option& description) {
  if (!description.default_value().empty()) return description.default_value();
  if (!description.unset_word().empty()) return description.unset_word();
  return description.default_help();
}

std::string UnitName(const v1::Option& description) {
  switch (description.unit()) {
    case v1::Option::BYTES:
      return "SIZE";
    case v1::Option::TIMES:
      return "Nx";
    case v1::Option::UNIT_UNSPECIFIED:
      return "N";
    default:
      return v1::Option::Unit_Name(description.unit());
  }
}

std::string ValueNameOf(const Option& option) {
  const v1::Option& description = option.description;
  switch (option.field().cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return description.words().empty()
                 ? "NAME"
                 : absl::StrJoin(description.words(), "|");
    case FieldDescriptor::CPPTYPE_BOOL:
      return description.words().empty()
                 ? "false|true"
                 : absl::StrJoin(description.words(), "|");
    default: {
      const std::string unit =
          option.field().cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE &&
                  description.unit() == v1::Option::UNIT_UNSPECIFIED
              ? "NUMBER"
              : UnitName(description);
      return option.field().is_repeated() ? absl::StrCat(unit, ",...") : unit;
    }
  }
}

// Distinct texts of the options, joined.
template <typename Text>
std::string Distinct(const std::vector<const Option*>& options,
                     const char* separator, Text text) {
  std::vector<std::string> texts;
  for (const Option* option : options) {
    std::string one = text(*option);
    if (std::find(texts.begin(), texts.end(), one) == texts.end()) {
      texts.push_back(std::move(one));
    }
  }
  return absl::StrJoin(texts, separator);
}

// Whether `name` is `path`, or its end after a dot.
bool IsEndOf(absl::string_view name, absl::string_view path) {
  return name == path || absl::EndsWith(path, absl::StrCat(".", name));
}

// Whether the chosen alternative ignores `option`, which belongs to others.
bool IsIgnored(const Option& option, const options::Chosen& chosen) {
  const auto it =
      chosen.find(option.alternatives.front()->real_containing_oneof());
  return it != chosen.end() &&
         options::DescriptionOf(*it->second).ignores_others();
}

}  // namespace

std::string Flag::Help() const {
  if (choice != nullptr) return choice->description.help();
  if (common) {
    return absl::StrCat(
        "sets ", absl::StrJoin(options, " and ",
                               [](std::string* out, const Option* option) {
                                 out->append(option->description.flag());
                               }));
  }
  std::vector<const Option*> explained;
  for (const Option* option : options) {
    if (!option->description.help().empty()) explained.push_back(option);
  }
  return Distinct(explained, "; ", [](const Option& option) {
    const v1::Option& description = option.description;
    if (description.special_value().empty()) return description.help();
    return absl::StrCat(description.help(), "; ", description.special_value(),
                        " = ", description.special_help());
  });
}

std::string Flag::Default() const {
  const v1::Option& described =
      choice != nullptr ? choice->description : options.front()->description;
  std::string text = DefaultText(described);
  for (const auto& other : described.default_for()) {
    absl::StrAppend(&text, "; ", other.alternative(), " ", other.value());
  }
  if (choice != nullptr) return text;
  const Option& first = *options.front();
  for (const Option* option : options) {
    const std::string other = DefaultText(option->description);
    // Another field of the flag has the default of a field without one.
    if (other.empty() || other == DefaultText(first.description) ||
        option->alternatives == first.alternatives) {
      continue;
    }
    for (const FieldDescriptor* alternative : option->alternatives) {
      absl::StrAppend(&text, "; ", alternative->name(), " ", other);
    }
  }
  return text;
}

std::string Flag::ValueName() const {
  if (choice != nullptr) return absl::StrJoin(choice->Names(), "|");
  return Distinct(options, "|", ValueNameOf);
}

std::string Flag::Values() const {
  if (choice != nullptr) return absl::StrJoin(choice->Names(), ", ");
  return Distinct(options, " or ", options::ValueWords);
}

std::string Flag::HelpWithDefault() const {
  if (required()) return absl::StrCat(Help(), " (required)");
  const std::string value = Default();
  return value.empty() ? Help()
                       : absl::StrCat(Help(), " (default ", value, ")");
}

std::string Flag::Group() const {
  if (choice != nullptr) return std::string(choice->oneof->name());
  const Alternatives alternatives = Union(options);
  if (alternatives.empty()) return options.front()->group;
  if (AreAll(alternatives)) {
    return std::string(alternatives.front()->real_containing_oneof()->name());
  }
  return options::AlternativeWords(alternatives);
}

std::string Flag::Heading() const {
  std::string heading = Group();
  heading[0] = absl::ascii_toupper(static_cast<unsigned char>(heading[0]));
  return heading;
}

bool Flag::required() const {
  return choice == nullptr && options.front()->description.required();
}

std::vector<Flag> FlagsOf(const OptionTable& table) {
  std::vector<Flag> flags;
  auto choice = table.choices().begin();
  const auto add_choices = [&](size_t position) {
    for (; choice != table.choices().end() && choice->position <= position;
         ++choice) {
      if (choice->description.flag().empty()) continue;
      FlagNamed(choice->description.flag(), &flags).choice = &*choice;
    }
  };
  for (size_t i = 0; i < table.options().size(); ++i) {
    add_choices(i);
    const Option& option = table.options()[i];
    const v1::Option& description = option.description;
    if (!description.common_flag().empty()) {
      Flag& flag = FlagNamed(description.common_flag(), &flags);
      flag.common = true;
      flag.options.push_back(&option);
    }
    if (!description.flag().empty()) {
      FlagNamed(description.flag(), &flags).options.push_back(&option);
    }
  }
  add_choices(table.options().size());
  return flags;
}

absl::Status ValueError(const OptionValue& value, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(value.source, ": \"", value.text, "\" ", what));
}

absl::Status SetField(const Flag& flag, const OptionValue& value,
                      const options::Chosen& chosen,
                      google::protobuf::Message& root) {
  bool applies = false;
  std::vector<const FieldDescriptor*> alternatives;
  for (const Option* option : flag.options) {
    alternatives.insert(alternatives.end(), option->alternatives.begin(),
                        option->alternatives.end());
    if (!options::Applies(*option, chosen)) continue;
    applies = true;
    if (options::SetFromText(*option, value.text, root).ok()) {
      return absl::OkStatus();
    }
  }
  if (applies) return ValueError(value, absl::StrCat("is not ", flag.Values()));
  if (IsIgnored(*flag.options.front(), chosen)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      value.source, ": ", options::WhyNotApplied(alternatives, chosen)));
}

const Flag* FlagOfField(const std::vector<Flag>& flags,
                        absl::string_view path) {
  const auto names = [&](const std::string& own) {
    return IsEndOf(path, own) || IsEndOf(own, path);
  };
  for (const Flag& flag : flags) {
    if (flag.common) continue;
    if (flag.choice != nullptr && names(flag.choice->FieldPath())) return &flag;
    for (const Option* option : flag.options) {
      if (names(options::ToString(option->path))) return &flag;
    }
  }
  return nullptr;
}

}  // namespace hearth::cli
