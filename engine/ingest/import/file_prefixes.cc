#include "engine/ingest/import/file_prefixes.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace hearth::ingest {

std::string FilePrefixes::New(const std::string& type) {
  std::string prefix = type;
  for (char& c : prefix) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-') {
      c = '_';
    }
  }
  prefix.resize(std::min<size_t>(prefix.size(), 100));
  std::string unique = prefix;
  for (int i = 2; !taken_.insert(unique).second; ++i) {
    unique = absl::StrCat(prefix, "-", i);
  }
  return unique;
}

}  // namespace hearth::ingest
