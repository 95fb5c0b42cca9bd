#ifndef HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FOLDER_H_
#define HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"

/// Questions of formats about a source's folders.

namespace hearth::ingest {

/// INVALID_ARGUMENT if `path` is no folder.
absl::Status CheckIsFolder(io::FileSystem& files, const std::string& path);

/// Whether there is a file or folder at `path`.
absl::StatusOr<bool> Exists(io::FileSystem& files, const std::string& path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FOLDER_H_
