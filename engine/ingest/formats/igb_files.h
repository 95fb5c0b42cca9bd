#ifndef HEARTH_ENGINE_INGEST_FORMATS_IGB_FILES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IGB_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/ingest/formats/id_permutation.h"
#include "engine/io/file_system.h"

/// Files of an IGB dataset that are not on the disk, or not as they look.

namespace hearth::ingest {

/// int64 ids: first, first + 1, .. `count` in all; or, of those positions, the
/// ids in `order`. `name` stands for the path.
std::unique_ptr<io::ReadableFile> NewIdFile(std::string name, int64_t first,
                                            int64_t count,
                                            std::optional<IdPermutation> order);

/// The first `kept_bytes` of `file`, then bytes of all ones up to `size_bytes`:
/// -1 of any type of integers, NaN of any type of floats. REQUIRES: the file
/// has kept_bytes.
std::unique_ptr<io::ReadableFile> NewPaddedFile(
    std::unique_ptr<io::ReadableFile> file, uint64_t kept_bytes,
    uint64_t size_bytes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IGB_FILES_H_
