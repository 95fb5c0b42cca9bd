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

/// The files of a plan under construction (PackFiles), the scan of the features
/// (FeatureScan), and appending to many regions of a file (RegionWriter).

namespace hearth::strategy {

/// Scratch files of packing, in the plan's folder.
inline constexpr char kDispatchFile[] = "dispatch.tmp";
inline constexpr char kDiskOrderFile[] = "disk_order.tmp";
inline constexpr char kDiskRowsFile[] = "disk_rows.tmp";

/// The files of a plan while it is packed: they get their final names once all
/// are durable, the index last. Single-owner.
class PackFiles {
 public:
  /// `files` outlives the object.
  PackFiles(io::FileSystem& files, std::string folder);

  /// Unless committed, removes all files of the plan, scratch files included.
  ~PackFiles();

  PackFiles(const PackFiles&) = delete;
  PackFiles& operator=(const PackFiles&) = delete;

  /// Creates the folder if needed, and removes all files of another plan: its
  /// index first, so that an index never stands beside files of another plan.
  absl::Status Begin();

  /// The temporary path of the file `name`.
  std::string Temporary(const char* name) const;

  /// Removes the scratch files, renames the plan's files, and writes the index.
  /// REQUIRES: the plan's files are durable; the scratch files are not needed
  /// any more.
  absl::Status Commit(const PackedLayout& layout);

 private:
  absl::Status RemoveAll();
  absl::Status RemoveScratch();

  io::FileSystem& files_;
  const std::string folder_;
  bool committed_ = false;
};

/// Reads a feature file once, from beginning to end, in partitions of whole
/// rows, reading ahead while one is used. Reads begin and end at page
/// boundaries, so that they bypass the page cache, wherever rows begin.
/// Single-owner.
class FeatureScan {
 public:
  /// Partitions in memory at most: one is read, one waits, one is used.
  static constexpr int64_t kPartitionsHeld = 3;

  /// A scan by partitions of `partition_nodes` rows. `features` outlives it.
  /// RESOURCE_EXHAUSTED without memory; DATA_LOSS, naming the file, if it ends
  /// before the last row.
  static absl::StatusOr<FeatureScan> Make(io::ReadableFile& features,
                                          const io::RowLayout& rows,
                                          int64_t partition_nodes);

  /// Partition `index`: rows [first, first + num_rows) of the file.
  struct Partition {
    int64_t index = 0;
    int64_t first = 0;
    int64_t num_rows = 0;
    const std::byte* rows = nullptr;
  };

  /// Calls `use` with each partition, in order, on the caller's thread; the
  /// rows are valid during the call. Returns the first error of reading or of
  /// `use`; CANCELLED, within a few MiB, when `stop` is requested. Call once.
  absl::Status Run(const std::function<absl::Status(const Partition&)>& use,
                   const Clock& clock, const std::stop_token& stop);

  /// The memory of the partitions, for reuse after Run.
  absl::Span<std::byte> memory() { return memory_.bytes(); }

 private:
  FeatureScan(io::ReadableFile& features, const io::RowLayout& rows,
              int64_t partition_nodes, uint64_t file_bytes,
              io::AlignedMemory memory);

  // Reads the next partition into its third of the memory.
  absl::Status Read(const std::stop_token& stop, Partition& partition);

  io::ReadableFile* features_;
  io::RowLayout rows_;
  int64_t partition_nodes_;
  uint64_t file_bytes_;
  io::AlignedMemory memory_;
};

/// Appends to many regions of one file at a time, as batched packing does
/// (DiskGNN, section 5.2). All writes are whole pages at page boundaries, so
/// that they bypass the page cache: a partial page waits in memory for the
/// region's next piece; the last page of a region is filled up with zeros.
/// Single-owner, except that each worker may be another thread, as long as no
/// two append to the same region at the same time.
///
/// Memory: kBytesPerRegion for each region, kStagingBytes for each worker.
class RegionWriter {
 public:
  static constexpr uint64_t kBytesPerRegion = kPageBytes + 40;
  static constexpr uint64_t kStagingBytes = 1 << 20;

  /// `file` outlives the writer. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<RegionWriter> Make(io::WritableFile& file,
                                           std::vector<FileRange> regions,
                                           int workers = 1);

  /// Memory for the next bytes of `region`: `bytes`, or fewer if there is less
  /// staging memory or the region ends. Workers are numbered from 0.
  absl::Span<std::byte> Begin(int64_t region, uint64_t bytes, int worker = 0);

  /// Appends the first `count` bytes of the memory from the worker's last
  /// Begin.
  absl::Status Commit(int64_t region, uint64_t count, int worker = 0);

  /// CRC32C of the region's bytes so far.
  uint32_t crc(int64_t region) const { return states_[region].crc; }

  /// DATA_LOSS unless all regions are full: otherwise the input was not what
  /// was measured.
  absl::Status CheckFull() const;

 private:
  struct State {
    uint64_t filled = 0;
    uint32_t crc = 0;
  };

  RegionWriter(io::WritableFile& file, std::vector<FileRange> regions,
               io::AlignedMemory carries, io::AlignedMemory staging);

  // The region's last, partial page.
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
