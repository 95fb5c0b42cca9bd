#ifndef HEARTH_PROTO_OPTIONS_OPTION_TABLE_H_
#define HEARTH_PROTO_OPTIONS_OPTION_TABLE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "hearth/v1/options.pb.h"

/// The descriptions (options.proto) of the fields of a message, in one list. It
/// is read from the descriptors, so that clients and the daemon know no option
/// by name.

namespace hearth::options {

/// Fields from a root message down to the last one's value. Of repeated
/// messages, the first element.
using Path = std::vector<const google::protobuf::FieldDescriptor*>;

/// "data.neighbor.fanouts", "trains[0].sage.hidden".
std::string ToString(const Path& path);

/// A field that is described.
struct Option {
  /// The description of its field, that of same_as included.
  v1::Option description;
  Path path;
  /// The heading under which its message is shown.
  std::string group;
  /// Alternatives of one choice, of which one must be chosen for the option to
  /// apply; empty: it always does.
  std::vector<const google::protobuf::FieldDescriptor*> alternatives;

  const google::protobuf::FieldDescriptor& field() const {
    return *path.back();
  }
};

/// A oneof that is described.
struct Choice {
  v1::Option description;
  /// The message that has it.
  Path path;
  std::string group;
  const google::protobuf::OneofDescriptor* oneof = nullptr;
  /// Number of the table's options that come before its alternatives.
  size_t position = 0;

  /// "data.strategy".
  std::string FieldPath() const;
  /// The alternatives' names, in the order of the proto.
  std::vector<std::string> Names() const;
  /// Null if there is no alternative of this name.
  const google::protobuf::FieldDescriptor* Find(const std::string& name) const;
};

/// The alternative that is chosen for each oneof that is set.
using Chosen = std::map<const google::protobuf::OneofDescriptor*,
                        const google::protobuf::FieldDescriptor*>;

/// All options below a type of message. Immutable.
class OptionTable {
 public:
  /// REQUIRES: what the descriptions refer to (same_as, applies_to) exists.
  explicit OptionTable(const google::protobuf::Descriptor& root);

  /// In the order of the proto.
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Choice>& choices() const { return choices_; }

  /// The alternatives that `message`, of the root's type, has chosen.
  Chosen ChosenIn(const google::protobuf::Message& message) const;

 private:
  std::vector<Option> options_;
  std::vector<Choice> choices_;
};

/// The description of a field, that of same_as included.
v1::Option DescriptionOf(const google::protobuf::FieldDescriptor& field);

/// Whether one of the option's alternatives is chosen.
bool Applies(const Option& option, const Chosen& chosen);

/// "strategies gnndrive and ginex", "model gat". REQUIRES: `alternatives` are
/// some of one choice.
std::string AlternativeWords(
    const std::vector<const google::protobuf::FieldDescriptor*>& alternatives);

/// Why an option of `alternatives`, each of one choice, does not apply: "not an
/// option of strategy memory; strategies that have it: gnndrive, ginex". Where
/// nothing is chosen: "an option of model gat only".
std::string WhyNotApplied(
    const std::vector<const google::protobuf::FieldDescriptor*>& alternatives,
    const Chosen& chosen);

/// The message at `path` within `root`; null where it, or one on the way, is
/// not there.
const google::protobuf::Message* Find(const Path& path,
                                      const google::protobuf::Message& root);

/// The same, made where it is not there.
google::protobuf::Message& Make(const Path& path,
                                google::protobuf::Message& root);

/// The message that has the field at the end of `path`.
Path ParentOf(const Path& path);

}  // namespace hearth::options

#endif  // HEARTH_PROTO_OPTIONS_OPTION_TABLE_H_
