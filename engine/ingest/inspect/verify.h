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

/// Amounts that a verification without findings has read.
struct VerifyResult {
  /// Number of arrays.
  uint64_t files = 0;
  /// Number of blocks with a checksum.
  uint64_t blocks = 0;
  /// Bytes of arrays and checksum files.
  uint64_t bytes = 0;
};

/// Called with the bytes done and in total, by one thread at a time.
using VerifyProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Reads everything that belongs to a dataset, including arrays registered in
/// place, and compares it with its checksums; past the page cache if the file
/// system allows it, so that the disk's own bytes are checked. A block that
/// does not match or cannot be read is tried once more. DATA_LOSS at the end if
/// anything is damaged: it names file, number and bytes of the first 20 damaged
/// blocks, and the number of others. CANCELLED once a stop is requested; other
/// errors (such as PERMISSION_DENIED) at once. `progress` may be empty.
absl::StatusOr<VerifyResult> VerifyDataset(io::FileSystem& files,
                                           const store::Dataset& dataset,
                                           const VerifyProgress& progress,
                                           std::stop_token stop);

/// As VerifyDataset, for these arrays only; `folder` may be an unfinished
/// dataset.
absl::StatusOr<VerifyResult> VerifyArrays(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const store::ArrayFile* const> arrays,
    const VerifyProgress& progress, std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_VERIFY_H_
