#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_WRITER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_CACHE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/packing/file_range.h"

/// The last stage of packing: the disk cache in its order.

namespace hearth::strategy {

/// The final places of the rows of each segment's disk cache, while the rows
/// are collected in the order of the nodes: a scratch file of 4 bytes a row,
/// with a CRC32C for each segment. Written segment by segment, then read
/// segment by segment, in pieces. Single-owner.
class DiskOrder {
 public:
  /// `files` outlives the object.
  static absl::StatusOr<std::unique_ptr<DiskOrder>> Create(
      io::FileSystem& files, std::string path);

  /// Removes the file.
  ~DiskOrder();

  /// Adds the next segment: places[i] is the row of its ith node.
  absl::Status Add(absl::Span<const uint32_t> places);

  /// Ends adding; reading may begin.
  absl::Status EndAdding();

  int64_t num_segments() const { return std::ssize(segments_); }
  int64_t num_rows(int64_t segment) const { return segments_[segment].rows; }

  /// places[i] = the row of node first + i of the segment. A segment is read
  /// from its first node to its last; the last piece compares the checksum:
  /// DATA_LOSS, naming file and offset.
  absl::Status Read(int64_t segment, int64_t first,
                    absl::Span<uint32_t> places);

 private:
  struct Segment {
    uint64_t offset = 0;
    int64_t rows = 0;
    uint32_t crc = 0;
  };

  DiskOrder(io::FileSystem& files, std::string path,
            std::unique_ptr<io::WritableFile> file);

  io::FileSystem& files_;
  const std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::unique_ptr<io::ReadableFile> reader_;
  std::vector<Segment> segments_;
  uint64_t end_ = 0;
  // The CRC32C of the pieces read so far of the current segment.
  uint32_t crc_ = 0;
};

/// The rows of a segment's disk cache, in the order of the nodes, as the scan
/// collected them.
struct CollectedRows {
  FileRange range;
  uint32_t crc = 0;
};

/// The data that the disk cache is written from. All of it outlives the
/// writing.
struct DiskCacheSource {
  io::ReadableFile& rows;
  std::vector<CollectedRows> segments;
  DiskOrder& order;
};

/// Writes the disk cache and its checksums, each segment in its order: for as
/// many rows as fit into `window` at a time, the collected segment is read from
/// beginning to end. Write returns the CRC32C of the checksum file. DATA_LOSS
/// if the collected rows or their order are damaged; CANCELLED when `stop` is
/// requested.
class DiskCacheWriter {
 public:
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  /// Memory for rows of `row_bytes`, without the window.
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
