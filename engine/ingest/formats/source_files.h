#ifndef HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FILES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FILES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"

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

/// Arrays in files of nothing but their elements.

/// Whether the file begins as .npy files do. INVALID_ARGUMENT if there is no
/// such file.
absl::StatusOr<bool> HasNpyHeader(io::FileSystem& files,
                                  const std::string& path);

/// ArrayReader::OpenRaw, but INVALID_ARGUMENT for an .npy file: its header,
/// taken for elements, would shift every row.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenRawArray(
    io::FileSystem& files, const std::string& path, store::ArrayHeader header);

/// The type that numpy and torch call `name`: "int64", "float32".
/// INVALID_ARGUMENT for anything else.
absl::StatusOr<store::ElementType> ParseElementType(absl::string_view name);

/// Edges of the type "SOURCE:RELATION:DESTINATION", with `separator` in place
/// of the colons; nothing if `name` is no such type.
std::optional<SourceEdges> EdgesOfType(absl::string_view name,
                                       absl::string_view separator = ":");

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FILES_H_
