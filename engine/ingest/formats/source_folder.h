#ifndef HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FOLDER_H_
#define HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"

/// Questions of formats about a source's folders.

namespace hearth::ingest {

/// INVALID_ARGUMENT if `path` is no folder.
absl::Status CheckIsFolder(io::FileSystem& files, const std::string& path);

/// Whether there is a file or folder at `path`. INVALID_ARGUMENT for a link to
/// nothing, which is meant to be there.
absl::StatusOr<bool> Exists(io::FileSystem& files, const std::string& path);

/// Adds a warning that names the files in `folder` that look like arrays and
/// are not among `used`, the names of those that the import uses; none if there
/// are none, or no such folder.
absl::Status WarnOfUnusedFiles(io::FileSystem& files, const std::string& folder,
                               const std::vector<std::string>& used,
                               std::vector<std::string>& warnings);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FOLDER_H_
