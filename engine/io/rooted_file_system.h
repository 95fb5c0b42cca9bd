#ifndef HEARTH_ENGINE_IO_ROOTED_FILE_SYSTEM_H_
#define HEARTH_ENGINE_IO_ROOTED_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// Folders that a rooted file system lets through. Paths are absolute, except
/// `free`.
struct Roots {
  /// Folder below which every call is let through; empty = none.
  std::string free;
  /// Folders below which files may be read; empty = anywhere.
  std::vector<std::string> read = {};
  /// Folders below which files may be made, changed, removed and read; empty =
  /// anywhere.
  std::vector<std::string> write = {};
};

/// Restricts `base` to the folders of `roots`, which are held open from the
/// beginning: the kernel resolves each path from there (openat2 with
/// RESOLVE_BENEATH), without symbolic links, so that nobody with write access
/// can redirect a path, at whatever moment. PERMISSION_DENIED, naming the
/// folders, for any other path; an error for a folder that cannot be opened.
/// RealPath is let through. Files and folders made below `write` have the modes
/// 0666 and 0777 without the bits of `mask`, whatever the process's umask: they
/// are for other users. `base` must outlive it.
absl::StatusOr<std::unique_ptr<FileSystem>> OpenRooted(FileSystem& base,
                                                       const Roots& roots,
                                                       unsigned mask);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROOTED_FILE_SYSTEM_H_
