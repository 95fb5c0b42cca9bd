#ifndef HEARTH_ENGINE_IO_ATOMIC_FILE_H_
#define HEARTH_ENGINE_IO_ATOMIC_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// Suffix of everything that is not finished. Leftovers with it may be removed
/// by whoever holds the data directory's lock.
inline constexpr char kTemporarySuffix[] = ".tmp";

/// Replaces the file `path` by `contents`, durably: writes `path`.tmp, syncs
/// it, renames it, syncs the directory. After an error the old file is whole.
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view contents);

/// The same for contents in pieces, written one after the other.
absl::Status WritePiecesAtomically(
    FileSystem& files, const std::string& path,
    absl::Span<const absl::Span<const std::byte>> pieces);

/// The folder that holds `path`: "." for a bare name.
std::string ParentDirectory(const std::string& path);

/// The whole file. RESOURCE_EXHAUSTED if it is larger than `limit_bytes`.
absl::StatusOr<std::string> ReadWholeFile(FileSystem& files,
                                          const std::string& path,
                                          uint64_t limit_bytes);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ATOMIC_FILE_H_
