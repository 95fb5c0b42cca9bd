#ifndef HEARTH_PROTO_OPTIONS_OPTION_TABLE_H_
#define HEARTH_PROTO_OPTIONS_OPTION_TABLE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "hearth/v1/options.pb.h"

/// The described fields (options.proto) of a message as one list of options,
/// read from the descriptors, so that neither clients nor the daemon know an
/// option by name.

namespace hearth::options {

/// Fields from a root message down to a value. A repeated message on the way
/// stands for its first element.
using Path = std::vector<const google::protobuf::FieldDescriptor*>;

/// A path as text: "data.neighbor.fanouts", "trains[0].sage.hidden".
std::string ToString(const Path& path);

/// A described field.
struct Option {
  /// The field's description, merged with the description of same_as.
  v1::Option description;
  Path path;
  /// Heading under which the field's message is shown.
  std::string group;
  /// Alternatives of one choice; the option applies where one of them is
  /// chosen. Empty: it always applies.
  std::vector<const google::protobuf::FieldDescriptor*> alternatives;

  const google::protobuf::FieldDescriptor& field() const {
    return *path.back();
  }
};

/// A described oneof.
struct Choice {
  v1::Option description;
  /// Path of the message that has the oneof.
  Path path;
  std::string group;
  const google::protobuf::OneofDescriptor* oneof = nullptr;
  /// Number of the table's options that precede the alternatives' options.
  size_t position = 0;

  /// Path of the oneof as text: "data.strategy".
  std::string FieldPath() const;
  /// Names of the alternatives, in the order of the proto.
  std::vector<std::string> Names() const;
  /// The alternative called `name`; null if there is none.
  const google::protobuf::FieldDescriptor* Find(const std::string& name) const;
};

/// The chosen alternative of each oneof that is set.
using Chosen = std::map<const google::protobuf::OneofDescriptor*,
                        const google::protobuf::FieldDescriptor*>;

/// All options below a type of message. Immutable.
class OptionTable {
 public:
  /// REQUIRES: all names in same_as and applies_to exist.
  explicit OptionTable(const google::protobuf::Descriptor& root);

  /// Options and choices, each in the order of the proto.
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Choice>& choices() const { return choices_; }

  /// The alternatives that `message`, of the root's type, chooses.
  Chosen ChosenIn(const google::protobuf::Message& message) const;

 private:
  std::vector<Option> options_;
  std::vector<Choice> choices_;
};

/// A field's description, merged with the description of same_as.
v1::Option DescriptionOf(const google::protobuf::FieldDescriptor& field);

/// Whether the option applies with the alternatives of `chosen`.
bool Applies(const Option& option, const Chosen& chosen);

/// Alternatives in words: "strategies gnndrive and ginex", "model gat".
/// REQUIRES: `alternatives` is not empty, and all are of one choice.
std::string AlternativeWords(
    const std::vector<const google::protobuf::FieldDescriptor*>& alternatives);

/// Why an option that needs one of `alternatives`, all of one choice, does not
/// apply: "not an option of strategy memory; strategies that have it: gnndrive,
/// ginex". Where nothing is chosen: "an option of model gat only".
std::string WhyNotApplied(
    const std::vector<const google::protobuf::FieldDescriptor*>& alternatives,
    const Chosen& chosen);

/// The message at `path` within `root`; null where that message, or one on the
/// way to it, is not set.
const google::protobuf::Message* Find(const Path& path,
                                      const google::protobuf::Message& root);

/// The message at `path` within `root`, created with all messages on the way.
google::protobuf::Message& Make(const Path& path,
                                google::protobuf::Message& root);

/// Path of the message that has the last field of `path`.
Path ParentOf(const Path& path);

}  // namespace hearth::options

#endif  // HEARTH_PROTO_OPTIONS_OPTION_TABLE_H_
