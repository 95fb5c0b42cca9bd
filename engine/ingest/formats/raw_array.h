#ifndef HEARTH_ENGINE_INGEST_FORMATS_RAW_ARRAY_H_
#define HEARTH_ENGINE_INGEST_FORMATS_RAW_ARRAY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/array_header.h"

/// Arrays in files of nothing but their elements.

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_RAW_ARRAY_H_
