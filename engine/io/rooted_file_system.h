#ifndef HEARTH_ENGINE_IO_ROOTED_FILE_SYSTEM_H_
#define HEARTH_ENGINE_IO_ROOTED_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// Folders that a RootedFileSystem lets through. Paths are absolute but for
/// `free`.
struct Roots {
  /// The folder below which everything is let through as it is; empty = none.
  std::string free;
  /// Folders below which files may be read; none = anywhere.
  std::vector<std::string> read = {};
  /// Folders below which files may be made, changed, removed and read; none =
  /// anywhere.
  std::vector<std::string> write = {};
};

/// `base`, but only below folders that are held open from the beginning: the
/// kernel resolves each path from there (openat2 with RESOLVE_BENEATH), without
/// symbolic links, so that nobody who can write there leads a file astray, at
/// whatever moment. PERMISSION_DENIED, naming the folders, for any other path;
/// an error for a folder that cannot be opened. RealPath is let through.
/// Files and folders made where `write` reaches have the modes 0666 and 0777
/// but for the bits in `mask`, whatever the process's umask: they are for
/// others. `base` must outlive it.
absl::StatusOr<std::unique_ptr<FileSystem>> OpenRooted(FileSystem& base,
                                                       const Roots& roots,
                                                       unsigned mask);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ROOTED_FILE_SYSTEM_H_
