#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_ORDER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::strategy {

/// Where the rows of each segment's disk cache go in the end, while they are
/// collected in the order of the nodes: a scratch file of 4 bytes a row, with a
/// CRC32C for each segment. Written segment by segment, then read likewise,
/// each in pieces. Single-owner.
class DiskOrder {
 public:
  /// `files` outlives the object.
  static absl::StatusOr<std::unique_ptr<DiskOrder>> Create(
      io::FileSystem& files, std::string path);

  /// Removes the file.
  ~DiskOrder();

  /// The next segment: places[i] is the row of its ith node.
  absl::Status Add(absl::Span<const uint32_t> places);

  /// No more is added.
  absl::Status EndAdding();

  int64_t num_segments() const { return std::ssize(segments_); }
  int64_t num_rows(int64_t segment) const { return segments_[segment].rows; }

  /// places[i] = the row of node first + i of the segment. Every read of a
  /// segment goes from its first node to its last; the last one compares the
  /// checksum: DATA_LOSS, naming file and offset.
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
  // The CRC32C of what was read of the present segment.
  uint32_t crc_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_DISK_ORDER_H_
