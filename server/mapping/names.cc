#include "server/mapping/names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace hearth::server {
namespace {

constexpr size_t kMaxNameLength = 128;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

bool IsValidName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), IsNameCharacter) &&
         // Unfinished folders end so; see io::kTemporarySuffix.
         !absl::EndsWith(name, ".tmp");
}

}  // namespace hearth::server
