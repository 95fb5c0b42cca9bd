#include "client/cli/enum_words.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace hearth::cli {

std::string EnumWord(const google::protobuf::EnumValueDescriptor& value) {
  if (value.number() == 0) return "auto";
  return absl::StrReplaceAll(absl::AsciiStrToLower(value.name()), {{"_", "-"}});
}

}  // namespace hearth::cli
