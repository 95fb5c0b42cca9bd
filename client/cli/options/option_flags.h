#ifndef HEARTH_CLIENT_CLI_OPTIONS_OPTION_FLAGS_H_
#define HEARTH_CLIENT_CLI_OPTIONS_OPTION_FLAGS_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/options/option_values.h"
#include "proto/options/option_table.h"

namespace hearth::cli {

/// A flag of a command, which is also a key of a job file, and all fields that
/// it may set.
struct Flag {
  std::string name;
  /// Options of the table with this name as their flag or, if `common`, as
  /// their common flag.
  std::vector<const options::Option*> options;
  /// The choice whose alternative the flag names; null for a flag that sets
  /// fields.
  const options::Choice* choice = nullptr;
  bool common = false;

  /// Meaning of the flag, without its default.
  std::string Help() const;
  /// Default of the flag: "1024", "0; adamw 0.01"; empty without a default.
  std::string Default() const;
  /// Meaning of the flag, with its default, or that it is required.
  std::string HelpWithDefault() const;
  /// Form of its value: "SIZE", "random|normal".
  std::string ValueName() const;
  /// Values that it may have, in words.
  std::string Values() const;
  /// Group of the flag: "data", "strategy gnndrive", "optimizer".
  std::string Group() const;
  /// Group as a heading: "Strategy gnndrive".
  std::string Heading() const;
  bool required() const;
};

/// All flags of `table`, in the order of the proto. `table` must outlive them.
std::vector<Flag> FlagsOf(const options::OptionTable& table);

/// The error of a value: --epochs: "x" `what`.
absl::Status ValueError(const OptionValue& value, absl::string_view what);

/// Sets the first field of `flag` that applies with `chosen` and can take the
/// value. INVALID_ARGUMENT, with the reason, if there is none. A value is
/// ignored if the chosen alternative ignores other alternatives' options.
/// REQUIRES: `flag` is neither common nor a choice.
absl::Status SetField(const Flag& flag, const OptionValue& value,
                      const options::Chosen& chosen,
                      google::protobuf::Message& root);

/// The flag that sets the field named `path`; null if there is none. A path may
/// begin above or below the table's root: "train.data.batch_size" and
/// "batch_size" name the same field.
const Flag* FlagOfField(const std::vector<Flag>& flags, absl::string_view path);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_OPTION_FLAGS_H_
