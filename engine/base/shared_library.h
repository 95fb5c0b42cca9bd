#ifndef HEARTH_ENGINE_BASE_SHARED_LIBRARY_H_
#define HEARTH_ENGINE_BASE_SHARED_LIBRARY_H_

#include <string>

#include "absl/strings/string_view.h"

/// Libraries that are loaded while the process runs.

namespace hearth {

/// The path that the environment variable `variable` names; without one, `name`
/// in the folder of the binary that runs.
std::string LibraryPath(const char* variable, absl::string_view name);

/// The dynamic linker's last error on this thread, which names the file.
std::string LinkerError();

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_SHARED_LIBRARY_H_
