#ifndef HEARTH_ENGINE_SAMPLE_SAMPLE_FILE_H_
#define HEARTH_ENGINE_SAMPLE_SAMPLE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

/// Sampled batches in files, for who samples long before the batch is needed
/// (the runtime files ids and adj of Ginex, section 3.1). One file a batch,
/// read by one sequential read; the input nodes stand first, so that they can
/// be read alone. Numbers take 4 bytes where they fit, else 8. Everything is
/// covered by a CRC32C. A scratch format: in the machine's byte order, of this
/// version of Hearth alone, not synced.

namespace hearth::sample {

/// Writes `batch` as the file `path` and returns its size. RESOURCE_EXHAUSTED,
/// naming the bytes needed, if the disk is full; after any error the file is
/// gone.
absl::StatusOr<uint64_t> WriteSample(io::FileSystem& files,
                                     const std::string& path,
                                     const MiniBatch& batch);

/// Reads the sample that WriteSample wrote for the batch of `key`. A damaged
/// file is read once more, then DATA_LOSS naming the file and the offset; so is
/// a batch of another key.
absl::StatusOr<MiniBatch> ReadSample(io::FileSystem& files,
                                     const std::string& path,
                                     const BatchKey& key);

/// Its input nodes alone. They replace `nodes`.
absl::Status ReadSampleNodes(io::FileSystem& files, const std::string& path,
                             const BatchKey& key,
                             std::vector<store::NodeId>& nodes);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SAMPLE_FILE_H_
