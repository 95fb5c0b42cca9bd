#ifndef HEARTH_ENGINE_PLAN_PARTITION_LIST_SCATTER_H_
#define HEARTH_ENGINE_PLAN_PARTITION_LIST_SCATTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/topology_scan.h"
#include "engine/store/topology.h"

/// Brings neighbor lists to the place of their part on disk: first to
/// first-level parts in a scratch file, then, by a counting sort, into the file
/// of lists.

namespace hearth::plan {

/// Bytes in which the scatter file is written and read.
inline constexpr uint64_t kScatterChunkBytes = 512 << 10;

/// Place and checksum of one chunk of the scatter file.
struct ScatterChunk {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t crc32c = 0;
};

/// Lists that were scattered to parts, to be read part by part, any number of
/// times. Thread-safe.
class ScatteredLists {
 public:
  /// A reader of a part's lists, in the order in which they were appended. Next
  /// gives DATA_LOSS, naming the file, where the file has changed. The reader
  /// holds kScatterChunkBytes and must not outlive this object.
  absl::StatusOr<std::unique_ptr<ListReader>> Read(int part) const;

  /// Calls `use` with all windows of a part's lists. CANCELLED after a stop.
  absl::Status ForEachWindow(
      int part, const std::stop_token& stop,
      absl::FunctionRef<void(const ListWindow&)> use) const;

 private:
  friend class ListScatter;

  ScatteredLists(std::unique_ptr<io::ReadableFile> file, int id_bytes,
                 std::vector<std::vector<ScatterChunk>> chunks)
      : file_(std::move(file)),
        id_bytes_(id_bytes),
        chunks_(std::move(chunks)) {}

  const std::unique_ptr<io::ReadableFile> file_;
  const int id_bytes_;
  const std::vector<std::vector<ScatterChunk>> chunks_;
};

/// Appends lists to parts in a scratch file that is written sequentially, past
/// the page cache: a part's full chunk is written at the end of the file, so
/// that sizes of parts need not be known. A list that does not fit into a chunk
/// continues in the part's next one. Single-owner.
class ListScatter {
 public:
  static uint64_t MemoryBytes(int parts) {
    return static_cast<uint64_t>(parts) * kScatterChunkBytes;
  }

  /// Upper bound of the file's bytes, for so many lists.
  static uint64_t FileBytes(int64_t lists, int64_t neighbors, int parts,
                            int id_bytes);

  /// Reserves `file_bytes` on disk: RESOURCE_EXHAUSTED if there is too little
  /// space.
  /// `files` must outlive the object.
  static absl::StatusOr<std::unique_ptr<ListScatter>> Create(
      io::FileSystem& files, const std::string& path, int parts, int id_bytes,
      uint64_t file_bytes);

  /// Appends neighbors of `node` to its list in part `part`. Unless the list
  /// `ends` here, the part's next call continues it.
  absl::Status Append(int part, store::NodeId node,
                      absl::Span<const store::NodeId> neighbors, bool ends);

  /// Ends writing. The file is not made durable: nobody needs it after a crash.
  absl::StatusOr<std::unique_ptr<ScatteredLists>> Finish();

 private:
  ListScatter(io::FileSystem& files, std::string path, int parts, int id_bytes)
      : files_(files),
        path_(std::move(path)),
        id_bytes_(static_cast<uint64_t>(id_bytes)),
        filled_(static_cast<size_t>(parts)),
        chunks_(static_cast<size_t>(parts)) {}

  absl::Status Flush(size_t part);

  io::FileSystem& files_;
  const std::string path_;
  const uint64_t id_bytes_;
  std::unique_ptr<io::WritableFile> file_;
  // A chunk for each part, and the number of its bytes in use.
  io::AlignedMemory memory_;
  std::vector<uint64_t> filled_;
  std::vector<std::vector<ScatterChunk>> chunks_;
  uint64_t end_ = 0;
};

/// File of all parts' lists, to which several threads write, each at its own
/// place. Thread-safe.
class PartListsFile {
 public:
  /// Reserves `bytes` on disk: RESOURCE_EXHAUSTED if there is too little space.
  static absl::StatusOr<std::unique_ptr<PartListsFile>> Create(
      io::FileSystem& files, const std::string& path, uint64_t bytes);

  /// Writes whole pages, at a multiple of the page size.
  absl::Status Write(uint64_t offset, absl::Span<const std::byte> pages)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes the file durable and closes it.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit PartListsFile(std::unique_ptr<io::WritableFile> file)
      : file_(std::move(file)) {}

  absl::Mutex mutex_;
  const std::unique_ptr<io::WritableFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

/// Parts that are made of one first-level part, and their area in the file of
/// lists, in which they are stored one after another.
struct PartArea {
  /// Number of the first-level part, and of the first part made of it.
  int first = 0;
  int begin = 0;
  /// Begin of the area in the file, at a page, and its greatest size in bytes.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  /// Entries of the parts in the index, with their sizes.
  absl::Span<PartEntry> parts;
};

/// Bytes, in whole pages, of the memory with which each of `threads` threads
/// writes areas.
uint64_t AreaWindowBytes(int threads);

/// Upper bound of an area's bytes, in whole pages.
uint64_t AreaBytes(int64_t nodes, int64_t neighbors, int parts, int id_bytes);

/// Writes the area's lists, and fills in the places and checksums of its parts.
/// Second half of a counting sort: reads all lists of the first-level part once
/// for each piece of the area that fits into `window`, whole pages of memory.
/// Returns the end of the written bytes, in whole pages.
absl::StatusOr<uint64_t> WriteArea(const PartitionContext& context,
                                   const ScatteredLists& lists,
                                   const NodeLabels<uint16_t>& labels,
                                   const PartArea& area,
                                   absl::Span<std::byte> window,
                                   PartListsFile& file);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_LIST_SCATTER_H_
