#ifndef HEARTH_CLIENT_CLI_ENUM_WORDS_H_
#define HEARTH_CLIENT_CLI_ENUM_WORDS_H_

#include <map>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace hearth::cli {

/// "edge-list" for the value EDGE_LIST; "auto" for the value 0.
std::string EnumWord(const google::protobuf::EnumValueDescriptor& value);

/// The word for `value`; its number if this client does not know it.
template <typename Enum>
std::string EnumWord(Enum value) {
  const google::protobuf::EnumValueDescriptor* known =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return known != nullptr ? EnumWord(*known) : std::to_string(value);
}

/// The values of an enum of the API by their words, for OneOf.
template <typename Enum>
std::map<std::string, Enum> EnumWords() {
  const google::protobuf::EnumDescriptor& all =
      *google::protobuf::GetEnumDescriptor<Enum>();
  std::map<std::string, Enum> words;
  for (int i = 0; i < all.value_count(); ++i) {
    words[EnumWord(*all.value(i))] = static_cast<Enum>(all.value(i)->number());
  }
  return words;
}

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_ENUM_WORDS_H_
