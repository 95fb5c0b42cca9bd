#ifndef HEARTH_PROTO_OPTIONS_OPTION_VALUE_H_
#define HEARTH_PROTO_OPTIONS_OPTION_VALUE_H_

#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/options/option_table.h"

/// Values of options as text and as fields, and their bounds. Where a message
/// is asked for, it is the root that the option's path begins at.

namespace hearth::options {

/// Whether the field is there, or, where its absence cannot be told, not zero.
bool IsSet(const Option& option, const google::protobuf::Message& root);

/// Sets the field to what `text` says: "1024", "10,10,-1", "4GiB", "2.5x",
/// "true"; unset_word clears it. INVALID_ARGUMENT, telling what it may be ("is
/// not a whole number from 1 to 16"), for anything else, values out of bounds
/// among it.
absl::Status SetFromText(const Option& option, absl::string_view text,
                         google::protobuf::Message& root);

/// The field's value, as SetFromText takes it; nothing for a field that is not
/// set and has no word for it.
std::optional<std::string> ToText(const Option& option,
                                  const google::protobuf::Message& root);

/// The description's default, given what is chosen; empty if there is none.
std::string DefaultOf(const Option& option, const Chosen& chosen);
std::string DefaultOf(const Choice& choice, const Chosen& chosen);

/// The fault of one value.
struct Violation {
  /// The index in a list.
  std::optional<int> index;
  /// "must be at most 16, not 17".
  std::string text;
};

/// How the field's value is out of its bounds; empty if it is not, or not set
/// and without a default.
std::vector<Violation> CheckBounds(const Option& option,
                                   const google::protobuf::Message& root);

/// The texts that SetFromText takes, in words: "a whole number from 1 to 16".
std::string ValueWords(const Option& option);

/// Options by the names that users give them as flags.

/// The fields and the choice that one name stands for.
struct NamedOption {
  /// Those that carry it as their own flag, or as their common one.
  std::vector<const Option*> options;
  const Choice* choice = nullptr;

  bool empty() const { return options.empty() && choice == nullptr; }

  /// All alternatives with which one of the fields applies.
  std::vector<const google::protobuf::FieldDescriptor*> Alternatives() const;
};

/// The option that `table`, which must outlive it, calls `name`; empty if none.
NamedOption FindNamed(const OptionTable& table, absl::string_view name);

/// Sets what `named` stands for in `root` to `text`: the first field that
/// applies with what is chosen there and can take the value; of a common flag,
/// all that apply. Another alternative of a choice takes over the options that
/// it shares with the one before. INVALID_ARGUMENT, telling what the value may
/// be; FAILED_PRECONDITION, telling with what it applies, where it does not.
/// REQUIRES: `named` is not empty.
absl::Status SetNamed(const OptionTable& table, const NamedOption& named,
                      absl::string_view text, google::protobuf::Message& root);

}  // namespace hearth::options

#endif  // HEARTH_PROTO_OPTIONS_OPTION_VALUE_H_
