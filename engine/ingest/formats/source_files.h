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

/// Files and folders of a source: whether they exist, warnings about unused
/// ones, raw arrays, and names of types.

namespace hearth::ingest {

/// INVALID_ARGUMENT if `path` is no folder.
absl::Status CheckIsFolder(io::FileSystem& files, const std::string& path);

/// Whether there is a file or folder at `path`. INVALID_ARGUMENT for a link to
/// nothing, since something was meant to be there.
absl::StatusOr<bool> Exists(io::FileSystem& files, const std::string& path);

/// Adds a warning that names the files in `folder` that look like arrays but
/// are not in `used`, the names of files that the import reads. Adds nothing if
/// there are no such files, or no such folder.
absl::Status WarnOfUnusedFiles(io::FileSystem& files, const std::string& folder,
                               const std::vector<std::string>& used,
                               std::vector<std::string>& warnings);

/// Whether the file begins like an .npy file. INVALID_ARGUMENT if there is no
/// such file.
absl::StatusOr<bool> HasNpyHeader(io::FileSystem& files,
                                  const std::string& path);

/// As ArrayReader::OpenRaw, but INVALID_ARGUMENT for an .npy file: reading its
/// header as elements would shift every row.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenRawArray(
    io::FileSystem& files, const std::string& path, store::ArrayHeader header);

/// Element type for its name in numpy and torch: "int64", "float32".
/// INVALID_ARGUMENT for any other name.
absl::StatusOr<store::ElementType> ParseElementType(absl::string_view name);

/// Edges of the type called `name`: "SOURCE:RELATION:DESTINATION", with
/// `separator` in place of the colons; nullopt if `name` has another form.
std::optional<SourceEdges> EdgesOfType(absl::string_view name,
                                       absl::string_view separator = ":");

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_SOURCE_FILES_H_
