#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_WRITER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/disk_order.h"

namespace hearth::strategy {

/// The rows of a segment's disk cache as the scan collected them: in the order
/// of the nodes.
struct CollectedRows {
  FileRange range;
  uint32_t crc = 0;
};

/// The data that the disk cache is written from; all outlive the writing.
struct DiskCacheSource {
  io::ReadableFile& rows;
  std::vector<CollectedRows> segments;
  DiskOrder& order;
};

/// Writes the disk cache and its checksums to the given paths, each segment in
/// its order: as many rows as fit into `window` at a time, for which the
/// segment is read from one end to the other. Returns the CRC32C of the
/// checksum file. DATA_LOSS if what was collected is damaged; CANCELLED when
/// `stop` is requested.
class DiskCacheWriter {
 public:
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  /// Memory that it needs besides the window for rows of a length.
  static uint64_t BufferBytes(int64_t row_bytes);

  DiskCacheWriter(const PackedLayout& layout, absl::Span<std::byte> window,
                  const std::stop_token& stop, const Progress& progress)
      : layout_(layout), window_(window), stop_(stop), progress_(progress) {}

  absl::StatusOr<uint32_t> Write(io::FileSystem& files,
                                 const DiskCacheSource& source,
                                 const std::string& path,
                                 const std::string& checksums_path);

 private:
  absl::Status FillWindow(const DiskCacheSource& source, int64_t segment,
                          int64_t first, int64_t count);

  const PackedLayout& layout_;
  const absl::Span<std::byte> window_;
  const std::stop_token& stop_;
  const Progress& progress_;
  std::vector<uint32_t> places_;
  absl::Span<std::byte> block_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_WRITER_H_
