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

/// A flag of a command, and key of a job file: all fields that it may set.
struct Flag {
  std::string name;
  /// Those that carry it as their own flag or, if `common`, as their common
  /// one. The table has them.
  std::vector<const options::Option*> options;
  /// The oneof whose alternative it names, if it does not set fields.
  const options::Choice* choice = nullptr;
  bool common = false;

  /// Its meaning, without its default.
  std::string Help() const;
  /// "1024", "0; adamw 0.01"; empty without one.
  std::string Default() const;
  /// Its meaning, with its default or that it is required.
  std::string HelpWithDefault() const;
  /// The form of its value: "SIZE", "random|normal".
  std::string ValueName() const;
  /// The values it may have, in words.
  std::string Values() const;
  /// The heading it belongs to: "data", "strategy gnndrive", "optimizer".
  std::string Group() const;
  /// The same as a title: "Strategy gnndrive".
  std::string Heading() const;
  bool required() const;
};

/// All flags of `table`, which must outlive them, in the order of the proto.
std::vector<Flag> FlagsOf(const options::OptionTable& table);

/// "--epochs: "x" is ...".
absl::Status ValueError(const OptionValue& value, absl::string_view what);

/// Sets the first field of `flag`, which is not a common one and no choice,
/// that applies with what is chosen and can take the value. INVALID_ARGUMENT if
/// there is none, telling why. Where the choice that decides of it lets others'
/// options be, the value is ignored.
absl::Status SetField(const Flag& flag, const OptionValue& value,
                      const options::Chosen& chosen,
                      google::protobuf::Message& root);

/// The flag that sets the field named `path`, which may begin above the table's
/// root or below it: "train.data.batch_size" and "batch_size" name the same.
/// Null if there is none.
const Flag* FlagOfField(const std::vector<Flag>& flags, absl::string_view path);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTIONS_OPTION_FLAGS_H_
