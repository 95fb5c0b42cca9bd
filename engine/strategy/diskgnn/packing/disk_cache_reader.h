#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_READER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/store/block_checksums.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

/// The disk cache of a plan, open for reading: the device, and the checksums of
/// its pages, 4 bytes each, in memory. Thread-safe.
struct DiskCache {
  std::unique_ptr<io::BlockDevice> device;
  store::BlockChecksums checksums;
};

/// DATA_LOSS, naming the file, if the checksums are damaged.
absl::StatusOr<DiskCache> OpenDiskCache(io::FileSystem& files,
                                        const std::string& folder,
                                        const PackedLayout& layout,
                                        const io::BlockDeviceOptions& options);

/// Reads rows of the disk cache as the pages that hold them: requests to one
/// page are merged (DiskGNN, section 4), neighboring pages are read together,
/// and every page is checked. Single-owner, with its queue.
class DiskCacheReader {
 public:
  /// `cache`, `layout` and `queue` outlive the reader. Errors as
  /// io::RowReader::Create. REQUIRES: the disk cache has rows.
  static absl::StatusOr<std::unique_ptr<DiskCacheReader>> Create(
      const DiskCache& cache, const PackedLayout& layout, io::ReadQueue& queue,
      const io::RowReaderOptions& options);

  virtual ~DiskCacheReader() = default;

  /// Puts `rows` (ascending, as in AddressTable::disk) one after the other into
  /// `out`, [rows.size() * row_bytes]. A damaged page is read once more, then
  /// DATA_LOSS naming the file, the batch (for which `batch` is told) and the
  /// offset; otherwise as io::RowReader::Read. `tally` counts pages as rows.
  virtual absl::Status Read(int64_t batch, absl::Span<const int64_t> rows,
                            absl::Span<std::byte> out, std::stop_token stop,
                            io::ReadTally& tally) = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_READER_H_
