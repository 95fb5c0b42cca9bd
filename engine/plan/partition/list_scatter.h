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

namespace hearth::plan {

/// Bytes that the scatter file is written and read in.
inline constexpr uint64_t kScatterChunkBytes = 512 << 10;

/// The place of one chunk of the scatter file.
struct ScatterChunk {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t crc32c = 0;
};

/// Lists that were scattered to parts, to be read part by part, as often as
/// needed. Thread-safe.
class ScatteredLists {
 public:
  /// The lists of a part, as they were appended. DATA_LOSS, naming the file,
  /// for what is no longer what was written. This outlives the reader, which
  /// holds kScatterChunkBytes.
  absl::StatusOr<std::unique_ptr<ListReader>> Read(int part) const;

  /// Hands them to `use`, window by window. CANCELLED after a stop.
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

/// Scatters lists to parts, in a scratch file that is written from one end to
/// the other past the page cache: when the chunk of a part is full, it goes to
/// the end. So nothing need be known of the parts' sizes. A list that a chunk
/// does not hold goes on in the part's next one. Single-owner.
class ListScatter {
 public:
  static uint64_t MemoryBytes(int parts) {
    return static_cast<uint64_t>(parts) * kScatterChunkBytes;
  }

  /// Bytes of the file, at most, of so many lists.
  static uint64_t FileBytes(int64_t lists, int64_t neighbors, int parts,
                            int id_bytes);

  /// Reserves `file_bytes`: RESOURCE_EXHAUSTED if the disk has no room.
  /// `files` outlives it.
  static absl::StatusOr<std::unique_ptr<ListScatter>> Create(
      io::FileSystem& files, const std::string& path, int parts, int id_bytes,
      uint64_t file_bytes);

  /// Appends neighbors of `node` to the list of it that part `part` has; the
  /// list ends here, or goes on with the next neighbors of that part.
  absl::Status Append(int part, store::NodeId node,
                      absl::Span<const store::NodeId> neighbors, bool ends);

  /// All that was appended. The file is not durable: nobody needs it after a
  /// crash.
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
  // A chunk for each part, and the bytes of it that are used.
  io::AlignedMemory memory_;
  std::vector<uint64_t> filled_;
  std::vector<std::vector<ScatterChunk>> chunks_;
  uint64_t end_ = 0;
};

/// The file of lists, to which several threads write, each to its own place.
/// Thread-safe.
class PartListsFile {
 public:
  /// Reserves `bytes`: RESOURCE_EXHAUSTED if the disk has no room.
  static absl::StatusOr<std::unique_ptr<PartListsFile>> Create(
      io::FileSystem& files, const std::string& path, uint64_t bytes);

  /// Whole pages at a page's beginning.
  absl::Status Write(uint64_t offset, absl::Span<const std::byte> pages)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes it durable, and closes it.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit PartListsFile(std::unique_ptr<io::WritableFile> file)
      : file_(std::move(file)) {}

  absl::Mutex mutex_;
  const std::unique_ptr<io::WritableFile> file_ ABSL_PT_GUARDED_BY(mutex_);
};

/// The parts that are made of one first-level part, and their place, one after
/// the other, in the file of lists.
struct PartArea {
  /// The first-level part, and the first part made of it.
  int first = 0;
  int begin = 0;
  /// Where they begin in the file, at a page, and what they take there at most.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  /// Theirs in the index, with their sizes.
  absl::Span<PartEntry> parts;
};

/// Bytes of memory, whole pages, that each of so many threads has to write
/// areas with.
uint64_t AreaWindowBytes(int threads);

/// Bytes, whole pages, that an area takes at most.
uint64_t AreaBytes(int64_t nodes, int64_t neighbors, int parts, int id_bytes);

/// Writes the area's lists, and fills in the places and checksums of its parts.
/// The second half of a counting sort: reads all lists once for each piece of
/// the area that `window`, whole pages in memory, can hold. Returns the end of
/// what was written, in whole pages.
absl::StatusOr<uint64_t> WriteArea(const PartitionContext& context,
                                   const ScatteredLists& lists,
                                   const NodeLabels<uint16_t>& labels,
                                   const PartArea& area,
                                   absl::Span<std::byte> window,
                                   PartListsFile& file);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_LIST_SCATTER_H_
