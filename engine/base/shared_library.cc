#include "engine/base/shared_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace hearth {

std::string LibraryPath(const char* variable, absl::string_view name) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return named;
  char binary[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", binary, sizeof(binary));
  if (length <= 0) return std::string(name);
  const absl::string_view path(binary, static_cast<size_t>(length));
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), name);
}

std::string LinkerError() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "cannot be loaded";
}

}  // namespace hearth
