#ifndef HEARTH_ENGINE_INGEST_INSPECT_VERIFY_H_
#define HEARTH_ENGINE_INGEST_INSPECT_VERIFY_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// The outcome of a verification that found no damage: the amounts that were
/// read.
struct VerifyResult {
  /// Arrays.
  uint64_t files = 0;
  /// Blocks with a checksum.
  uint64_t blocks = 0;
  /// Bytes of arrays and checksum files.
  uint64_t bytes = 0;
};

/// Called now and then with the bytes done and in all, by one thread at a time.
using VerifyProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Reads everything that belongs to a dataset, arrays registered in place too,
/// against its checksums: past the page cache where the file system allows it,
/// so that it sees what is on the disk. What does not match, or cannot be read,
/// is tried once more. Goes on to the end, and then returns DATA_LOSS that
/// names every damaged block with its file, number and bytes: the first 20, and
/// how many more there are. CANCELLED once a stop is requested; other errors
/// (such as PERMISSION_DENIED) at once. `progress` may be empty.
absl::StatusOr<VerifyResult> VerifyDataset(io::FileSystem& files,
                                           const store::Dataset& dataset,
                                           const VerifyProgress& progress,
                                           std::stop_token stop);

/// The same of these arrays alone, in the folder of a dataset that may not be
/// whole yet.
absl::StatusOr<VerifyResult> VerifyArrays(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const store::ArrayFile* const> arrays,
    const VerifyProgress& progress, std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_VERIFY_H_
