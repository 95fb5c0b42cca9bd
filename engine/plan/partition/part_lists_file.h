#ifndef HEARTH_ENGINE_PLAN_PARTITION_PART_LISTS_FILE_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PART_LISTS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/list_scatter.h"
#include "engine/plan/partition/node_labels.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/partition_index.h"

namespace hearth::plan {

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

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PART_LISTS_FILE_H_
