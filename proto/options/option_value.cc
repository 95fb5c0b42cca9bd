#include "proto/options/option_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/byte_size.h"
#include "proto/options/command_line.h"

namespace hearth::options {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// `value` with the fewest digits that read back equal.
std::string DoubleText(double value) {
  std::array<char, 32> digits;
  const std::to_chars_result end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), end.ptr);
}

// `bytes` in the largest unit (a power of 1,024) that divides them.
std::string BytesText(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"", "KiB", "MiB", "GiB",
                                                 "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

bool IsReal(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL &&
         field.cpp_type() != FieldDescriptor::CPPTYPE_STRING;
}

// A bound or value as a number, in whichever unit it is written.
double NumberOf(const std::string& text) {
  double number = 0;
  if (absl::SimpleAtod(text, &number)) return number;
  return static_cast<double>(ParseByteSize(text).value_or(0));
}

// The bound that `value` violates: "must be at most 16, not 17"; empty if it
// is within bounds. `shown` is the value in words.
std::string BoundText(const v1::Option& description, double value,
                      const std::string& shown) {
  std::string bound;
  if (!std::isfinite(value)) {
    bound = "a finite number";
  } else if (!description.min().empty() &&
             value < NumberOf(description.min())) {
    bound = absl::StrCat("at least ", description.min());
  } else if (!description.above().empty() &&
             value <= NumberOf(description.above())) {
    bound = absl::StrCat("above ", description.above());
  } else if (!description.max().empty() &&
             value > NumberOf(description.max())) {
    bound = absl::StrCat("at most ", description.max());
  } else if (!description.below().empty() &&
             value >= NumberOf(description.below())) {
    bound = absl::StrCat("below ", description.below());
  }
  if (bound.empty()) return "";
  if (!description.special_value().empty()) {
    if (shown == description.special_value()) return "";
    absl::StrAppend(&bound, ", or ", description.special_value(), " (",
                    description.special_help(), ")");
  }
  return absl::StrCat("must be ", bound, ", not ", shown);
}

// A number, and as it is written.
struct Number {
  double value = 0;
  std::string text;
};

template <typename Value>
Number Whole(const v1::Option& description, Value value) {
  return {static_cast<double>(value),
          description.unit() == v1::Option::BYTES
              ? BytesText(static_cast<uint64_t>(value))
              : absl::StrCat(value)};
}

Number Real(const v1::Option& description, double value) {
  return {value, DoubleText(value) +
                     (description.unit() == v1::Option::TIMES ? "x" : "")};
}

std::vector<Number> NumbersOf(const Option& option, const Message& parent) {
  const Reflection& reflection = *parent.GetReflection();
  const FieldDescriptor* field = &option.field();
  const v1::Option& description = option.description;
  std::vector<Number> numbers;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (!field->is_repeated()) {
        return {Whole(description, reflection.GetInt32(parent, field))};
      }
      for (int i = 0; i < reflection.FieldSize(parent, field); ++i) {
        numbers.push_back(
            Whole(description, reflection.GetRepeatedInt32(parent, field, i)));
      }
      return numbers;
    case FieldDescriptor::CPPTYPE_UINT32:
      return {Whole(description, reflection.GetUInt32(parent, field))};
    case FieldDescriptor::CPPTYPE_UINT64:
      return {Whole(description, reflection.GetUInt64(parent, field))};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!field->is_repeated()) {
        return {Real(description, reflection.GetDouble(parent, field))};
      }
      for (int i = 0; i < reflection.FieldSize(parent, field); ++i) {
        numbers.push_back(
            Real(description, reflection.GetRepeatedDouble(parent, field, i)));
      }
      return numbers;
    default:
      return {};
  }
}

std::vector<std::string> WordsOf(const v1::Option& description) {
  if (description.words().empty()) return {"false", "true"};
  return {description.words().begin(), description.words().end()};
}

// Whether `text` is one of the described words; true where none are described.
bool IsOneOfWords(const v1::Option& description, absl::string_view text) {
  return description.words().empty() ||
         std::find(description.words().begin(), description.words().end(),
                   text) != description.words().end();
}

template <typename Value>
bool ParseWhole(absl::string_view text, bool bytes, Value* value) {
  if (!bytes) return absl::SimpleAtoi(text, value);
  const absl::StatusOr<int64_t> size = ParseByteSize(text);
  *value = static_cast<Value>(size.value_or(0));
  return size.ok();
}

bool ParseReal(absl::string_view text, bool times, double* value) {
  return (!times || absl::ConsumeSuffix(&text, "x")) &&
         absl::SimpleAtod(text, value) && std::isfinite(*value);
}

// Sets the field, or adds an element, to `text`; false if `text` is not of the
// field's type or out of its bounds.
bool Assign(const Option& option, absl::string_view text, Message& parent) {
  const Reflection& reflection = *parent.GetReflection();
  const FieldDescriptor* field = &option.field();
  const v1::Option& description = option.description;
  const bool bytes = description.unit() == v1::Option::BYTES;
  const auto allowed = [&](double value) {
    return BoundText(description, value, std::string(text)).empty();
  };
  const auto assign = [&](auto value, auto set) {
    if (!ParseWhole(text, bytes, &value)) return false;
    if (!allowed(static_cast<double>(value))) return false;
    (reflection.*set)(&parent, field, value);
    return true;
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (!IsOneOfWords(description, text)) return false;
      reflection.SetString(&parent, field, std::string(text));
      return true;
    case FieldDescriptor::CPPTYPE_BOOL: {
      const std::vector<std::string> words = WordsOf(description);
      if (text != words[0] && text != words[1]) return false;
      reflection.SetBool(&parent, field, text == words[1]);
      return true;
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return assign(int32_t{0}, field->is_repeated() ? &Reflection::AddInt32
                                                     : &Reflection::SetInt32);
    case FieldDescriptor::CPPTYPE_UINT32:
      return assign(uint32_t{0}, &Reflection::SetUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return assign(uint64_t{0}, &Reflection::SetUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!ParseReal(text, description.unit() == v1::Option::TIMES, &value) ||
          !allowed(value)) {
        return false;
      }
      if (field->is_repeated()) {
        reflection.AddDouble(&parent, field, value);
      } else {
        reflection.SetDouble(&parent, field, value);
      }
      return true;
    }
    default:
      return false;
  }
}

bool AssignAll(const Option& option, absl::string_view text, Message& parent) {
  if (!option.field().is_repeated()) return Assign(option, text, parent);
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  return parts.size() <= option.description.max_count() &&
         std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
           return Assign(option, part, parent);
         });
}

// Bounds in words: " from 1 to 16", " above 0", " of at least 0 and below 1".
std::string RangeWords(const Option& option) {
  const v1::Option& description = option.description;
  std::string low = description.min();
  std::string high = description.max();
  const bool bytes = description.unit() == v1::Option::BYTES;
  if (!IsReal(option.field()) && !bytes) {
    using Limits64 = std::numeric_limits<uint64_t>;
    const bool wide =
        option.field().cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
    if (low.empty()) low = "0";
    if (high.empty()) {
      high = absl::StrCat(wide ? Limits64::max()
                               : std::numeric_limits<uint32_t>::max());
    }
    return absl::StrCat(" from ", low, " to ", high);
  }
  std::vector<std::string> parts;
  if (!low.empty()) parts.push_back(absl::StrCat("of at least ", low));
  if (!description.above().empty()) {
    parts.push_back(absl::StrCat("above ", description.above()));
  }
  // The upper bound of a size is far beyond any use.
  if (!high.empty() && !bytes) parts.push_back(absl::StrCat("at most ", high));
  if (!description.below().empty()) {
    parts.push_back(absl::StrCat("below ", description.below()));
  }
  return parts.empty() ? "" : absl::StrCat(" ", absl::StrJoin(parts, " and "));
}

std::string FormWords(const Option& option) {
  const v1::Option& description = option.description;
  const FieldDescriptor& field = option.field();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
      description.words().empty()) {
    return "a text";
  }
  if (!IsNumber(field)) {
    const std::vector<std::string> words = WordsOf(description);
    return words.size() == 1
               ? words[0]
               : absl::StrCat("one of ", absl::StrJoin(words, ", "));
  }
  std::string form = IsReal(field) ? "number" : "whole number";
  if (description.unit() == v1::Option::BYTES) {
    form = "size such as 512MiB or 4GB";
  }
  if (description.unit() == v1::Option::TIMES) form = "multiple such as 2.5x";
  std::string words =
      field.is_repeated()
          ? absl::StrCat("a list of up to ", description.max_count(), " ", form,
                         "s", RangeWords(option))
          : absl::StrCat("a ", form, RangeWords(option));
  if (!description.special_value().empty()) {
    absl::StrAppend(&words, ", or ", description.special_value(), " (",
                    description.special_help(), ")");
  }
  return words;
}

std::string DefaultOf(const v1::Option& description, const Chosen& chosen) {
  for (const auto& differing : description.default_for()) {
    for (const auto& [oneof, alternative] : chosen) {
      if (alternative->name() == differing.alternative()) {
        return differing.value();
      }
    }
  }
  return description.default_value();
}

}  // namespace

bool IsSet(const Option& option, const Message& root) {
  const Message* parent = Find(ParentOf(option.path), root);
  if (parent == nullptr) return false;
  const Reflection& reflection = *parent->GetReflection();
  return option.field().is_repeated()
             ? reflection.FieldSize(*parent, &option.field()) > 0
             : reflection.HasField(*parent, &option.field());
}

absl::Status SetFromText(const Option& option, absl::string_view text,
                         Message& root) {
  Message& parent = Make(ParentOf(option.path), root);
  if (const auto* oneof = option.field().real_containing_oneof()) {
    // Clears the other fields of the same flag, too.
    parent.GetReflection()->ClearOneof(&parent, oneof);
  } else {
    parent.GetReflection()->ClearField(&parent, &option.field());
  }
  const std::string& unset = option.description.unset_word();
  if ((!unset.empty() && text == unset) || AssignAll(option, text, parent)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is not ", ValueWords(option)));
}

std::optional<std::string> ToText(const Option& option, const Message& root) {
  const v1::Option& description = option.description;
  const FieldDescriptor& field = option.field();
  if (!IsSet(option, root)) {
    if (!description.unset_word().empty()) return description.unset_word();
    // A zero without presence is a value, unless it stands for a default or is
    // out of bounds.
    const bool zero_is_meant =
        !field.is_repeated() && !field.has_presence() &&
        description.default_help().empty() &&
        (description.min().empty() || NumberOf(description.min()) <= 0) &&
        description.above().empty();
    if (!zero_is_meant) return std::nullopt;
  }
  const Message* found = Find(ParentOf(option.path), root);
  const Message& parent =
      found != nullptr ? *found
                       : *google::protobuf::MessageFactory::generated_factory()
                              ->GetPrototype(field.containing_type());
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return parent.GetReflection()->GetString(parent, &field);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return WordsOf(
        description)[parent.GetReflection()->GetBool(parent, &field) ? 1 : 0];
  }
  return absl::StrJoin(
      NumbersOf(option, parent), ",",
      [](std::string* out, const Number& number) { out->append(number.text); });
}

std::string DefaultOf(const Option& option, const Chosen& chosen) {
  return DefaultOf(option.description, chosen);
}

std::string DefaultOf(const Choice& choice, const Chosen& chosen) {
  return DefaultOf(choice.description, chosen);
}

std::vector<Violation> CheckBounds(const Option& option, const Message& root) {
  std::vector<Violation> violations;
  if (!IsSet(option, root)) return violations;
  const v1::Option& description = option.description;
  if (option.field().cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const Message& parent = *Find(ParentOf(option.path), root);
    const std::string text =
        parent.GetReflection()->GetString(parent, &option.field());
    if (IsOneOfWords(description, text)) return violations;
    return {{.index = std::nullopt,
             .text = absl::StrCat("must be ", ValueWords(option), ", not \"",
                                  text, "\"")}};
  }
  if (!IsNumber(option.field())) return violations;
  const std::vector<Number> numbers =
      NumbersOf(option, *Find(ParentOf(option.path), root));
  if (option.field().is_repeated() &&
      numbers.size() > description.max_count()) {
    return {{.index = std::nullopt,
             .text = absl::StrCat("must have at most ", description.max_count(),
                                  " entries, not ", numbers.size())}};
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::string text =
        BoundText(description, numbers[i].value, numbers[i].text);
    if (text.empty()) continue;
    violations.push_back({.index = option.field().is_repeated()
                                       ? std::optional<int>(static_cast<int>(i))
                                       : std::nullopt,
                          .text = std::move(text)});
  }
  return violations;
}

std::string ValueWords(const Option& option) {
  const std::string& unset = option.description.unset_word();
  const bool is_told =
      unset.empty() || (!option.description.words().empty() &&
                        IsOneOfWords(option.description, unset));
  return absl::StrCat(is_told ? "" : unset, is_told ? "" : " or ",
                      FormWords(option));
}

namespace {

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
      // A value out of the new alternative's bounds is dropped: the default
      // stands.
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
    // Of an own flag the first field that applies; of a common flag all.
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
