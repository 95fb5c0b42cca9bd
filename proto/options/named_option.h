#ifndef HEARTH_PROTO_OPTIONS_NAMED_OPTION_H_
#define HEARTH_PROTO_OPTIONS_NAMED_OPTION_H_

#include <google/protobuf/message.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/options/option_table.h"

/// Options by the names that users give them as flags.

namespace hearth::options {

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

#endif  // HEARTH_PROTO_OPTIONS_NAMED_OPTION_H_
