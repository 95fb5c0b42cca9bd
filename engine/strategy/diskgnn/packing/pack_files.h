#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_FILES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_FILES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

/// Scratch files of packing, in the plan's folder.
inline constexpr char kDispatchFile[] = "dispatch.tmp";
inline constexpr char kDiskOrderFile[] = "disk_order.tmp";
inline constexpr char kDiskRowsFile[] = "disk_rows.tmp";

/// The files of a plan while it is packed: they get their names when all are
/// durable, the index last. Single-owner.
class PackFiles {
 public:
  /// `files` outlives the object.
  PackFiles(io::FileSystem& files, std::string folder);

  /// Unless committed, removes all that is there of the plan, scratch files
  /// included.
  ~PackFiles();

  PackFiles(const PackFiles&) = delete;
  PackFiles& operator=(const PackFiles&) = delete;

  /// Makes the folder, if need be, and removes what is left of another plan:
  /// its index first, so that this never stands beside files of another one.
  absl::Status Begin();

  /// The path under which the file `name` is written.
  std::string Temporary(const char* name) const;

  /// Removes the scratch files, names all others, and writes the index.
  /// REQUIRES: these are durable, and those are needed no more.
  absl::Status Commit(const PackedLayout& layout);

 private:
  absl::Status RemoveAll();
  absl::Status RemoveScratch();

  io::FileSystem& files_;
  const std::string folder_;
  bool committed_ = false;
};

/// Reads a feature file once, from one end to the other, in partitions of whole
/// rows, the next ones while one is used. Reads begin and end at page
/// boundaries, so that they pass by the page cache, wherever the rows begin.
/// Single-owner.
class FeatureScan {
 public:
  /// Partitions that are in memory at a time, at most: one that is read, one
  /// that waits, one that is used.
  static constexpr int64_t kPartitionsHeld = 3;

  /// `features` outlives the scan. `partition_nodes` rows at a time.
  /// RESOURCE_EXHAUSTED without memory; DATA_LOSS, naming the file, if it ends
  /// before the last row.
  static absl::StatusOr<FeatureScan> Make(io::ReadableFile& features,
                                          const io::RowLayout& rows,
                                          int64_t partition_nodes);

  /// Rows [first, first + num_rows) of the file, number `index` of the
  /// partitions.
  struct Partition {
    int64_t index = 0;
    int64_t first = 0;
    int64_t num_rows = 0;
    const std::byte* rows = nullptr;
  };

  /// Hands all partitions to `use`, in order, on this thread; its rows stay
  /// until it returns. The first error of reading or of `use`; CANCELLED,
  /// within a few MiB, when `stop` is requested. Call once.
  absl::Status Run(const std::function<absl::Status(const Partition&)>& use,
                   const Clock& clock, const std::stop_token& stop);

  /// The memory of the partitions, once they are not needed any more.
  absl::Span<std::byte> memory() { return memory_.bytes(); }

 private:
  FeatureScan(io::ReadableFile& features, const io::RowLayout& rows,
              int64_t partition_nodes, uint64_t file_bytes,
              io::AlignedMemory memory);

  // Fills that part of the memory whose turn it is.
  absl::Status Read(const std::stop_token& stop, Partition& partition);

  io::ReadableFile* features_;
  io::RowLayout rows_;
  int64_t partition_nodes_;
  uint64_t file_bytes_;
  io::AlignedMemory memory_;
};

/// Fills many regions of one file side by side, each from its beginning to its
/// end: what batched packing appends to (DiskGNN, section 5.2). All writes are
/// whole pages at page boundaries, so that they pass by the page cache: what is
/// left of a page waits in memory for the region's next piece; the end of a
/// region is filled up with zeros. Single-owner, but for its workers: each may
/// be another thread, where no two fill the same region at the same time.
///
/// Memory: kBytesPerRegion each, and kStagingBytes for each worker.
class RegionWriter {
 public:
  static constexpr uint64_t kBytesPerRegion = kPageBytes + 40;
  static constexpr uint64_t kStagingBytes = 1 << 20;

  /// `file` outlives the writer. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<RegionWriter> Make(io::WritableFile& file,
                                           std::vector<FileRange> regions,
                                           int workers = 1);

  /// Where the next bytes of `region` are to be put: at most `bytes`, and no
  /// fewer unless there is less staging memory, or the region ends. Workers are
  /// counted from 0.
  absl::Span<std::byte> Begin(int64_t region, uint64_t bytes, int worker = 0);

  /// `count` bytes of what Begin gave that worker were put there.
  absl::Status Commit(int64_t region, uint64_t count, int worker = 0);

  /// CRC32C of a region's bytes so far.
  uint32_t crc(int64_t region) const { return states_[region].crc; }

  /// DATA_LOSS if a region has not been filled: what was to fill it is not
  /// what it was measured by.
  absl::Status CheckFull() const;

 private:
  struct State {
    uint64_t filled = 0;
    uint32_t crc = 0;
  };

  RegionWriter(io::WritableFile& file, std::vector<FileRange> regions,
               io::AlignedMemory carries, io::AlignedMemory staging);

  // The bytes of the region's last, not yet full page.
  std::byte* Carry(int64_t region) {
    return carries_.bytes().data() + static_cast<uint64_t>(region) * kPageBytes;
  }

  absl::Span<std::byte> Staging(int worker) {
    return staging_.bytes().subspan(
        static_cast<uint64_t>(worker) * kStagingBytes, kStagingBytes);
  }

  io::WritableFile* file_;
  std::vector<FileRange> regions_;
  std::vector<State> states_;
  io::AlignedMemory carries_;
  io::AlignedMemory staging_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_FILES_H_
