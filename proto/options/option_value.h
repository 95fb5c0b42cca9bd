#ifndef HEARTH_PROTO_OPTIONS_OPTION_VALUE_H_
#define HEARTH_PROTO_OPTIONS_OPTION_VALUE_H_

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/options/option_table.h"

/// Values of options as text and as fields, their bounds, and options by the
/// names of their flags. `root` is always the message at which the paths of
/// options begin.

namespace hearth::options {

/// Whether the field is set; for a field without presence, whether it is not
/// zero.
bool IsSet(const Option& option, const google::protobuf::Message& root);

/// Sets the field to the value of `text`: "1024", "10,10,-1", "4GiB", "2.5x",
/// "true"; unset_word clears it. INVALID_ARGUMENT for other texts and for
/// values out of bounds, with the values that are allowed: "is not a whole
/// number from 1 to 16".
absl::Status SetFromText(const Option& option, absl::string_view text,
                         google::protobuf::Message& root);

/// The field's value, as SetFromText takes it; nullopt for a field that is not
/// set and has no unset_word.
std::optional<std::string> ToText(const Option& option,
                                  const google::protobuf::Message& root);

/// The described default with the alternatives of `chosen`; empty without one.
std::string DefaultOf(const Option& option, const Chosen& chosen);
std::string DefaultOf(const Choice& choice, const Chosen& chosen);

/// A value out of its bounds.
struct Violation {
  /// Index of the element, for a repeated field.
  std::optional<int> index;
  /// The fault: "must be at most 16, not 17".
  std::string text;
};

/// Violations of the field's bounds; none for a field that is not set and has
/// no default.
std::vector<Violation> CheckBounds(const Option& option,
                                   const google::protobuf::Message& root);

/// Texts that SetFromText takes, in words: "a whole number from 1 to 16".
std::string ValueWords(const Option& option);

/// All fields and the choice that one flag stands for.
struct NamedOption {
  /// Options with this name as their flag or as their common flag.
  std::vector<const Option*> options;
  const Choice* choice = nullptr;

  bool empty() const { return options.empty() && choice == nullptr; }

  /// Union of the options' alternatives.
  std::vector<const google::protobuf::FieldDescriptor*> Alternatives() const;
};

/// The fields and the choice that `table` calls `name`; empty if there are
/// none. `table` must outlive the result.
NamedOption FindNamed(const OptionTable& table, absl::string_view name);

/// Sets the option `named` of `root` to `text`: the first field that applies
/// with the alternatives chosen in `root` and can take the value; for a common
/// flag, all fields that apply. A newly chosen alternative takes over the
/// options that it shares with the previous one. INVALID_ARGUMENT, with the
/// values that are allowed; FAILED_PRECONDITION, with the alternatives that
/// have the option, if no field applies. REQUIRES: `named` is not empty.
absl::Status SetNamed(const OptionTable& table, const NamedOption& named,
                      absl::string_view text, google::protobuf::Message& root);

}  // namespace hearth::options

#endif  // HEARTH_PROTO_OPTIONS_OPTION_VALUE_H_
