#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_INDEX_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/partition_summary.h"

/// The files of a partition, in its folder. All numbers little-endian; node ids
/// have 4 bytes where they fit, else 8.
///
///   partition.index     written last: the summary, where each part is, and
///                       the CRC32C of everything
///   partition.lists     each part in one piece: [n] int64 where each list
///                       ends, [n] nodes, [e] neighbors; at multiples of 64
///   partition.training  [T] training nodes, part after part, ascending
///   partition.parts     [N] uint16 the part of each node
///   partition.cross     [N] uint32 neighbors of each node in other parts

namespace hearth::plan {

inline constexpr char kPartitionIndexFile[] = "partition.index";
inline constexpr char kPartListsFile[] = "partition.lists";
inline constexpr char kTrainingNodesFile[] = "partition.training";
inline constexpr char kPartsFile[] = "partition.parts";
inline constexpr char kCrossCountsFile[] = "partition.cross";

/// One part, as it is in the index.
struct PartEntry {
  /// Where it begins in the file of lists.
  uint64_t offset = 0;
  int64_t nodes = 0;
  int64_t neighbors = 0;
  int64_t training_nodes = 0;
  /// The checksum of its bytes in the file of lists.
  uint32_t crc32c = 0;
  uint32_t unused = 0;

  /// Bytes in the file of lists.
  uint64_t bytes(int id_bytes) const {
    return static_cast<uint64_t>(nodes) * sizeof(int64_t) +
           static_cast<uint64_t>(nodes + neighbors) *
               static_cast<uint64_t>(id_bytes);
  }
};

/// A multiple of this is where a part begins in the file of lists.
inline constexpr uint64_t kPartAlignment = 64;

/// The contents of the index.
struct PartitionIndex {
  PartitionSummary summary;
  /// Bytes of the file of lists.
  uint64_t lists_bytes = 0;
  uint32_t training_crc32c = 0;
  uint32_t parts_crc32c = 0;
  uint32_t cross_crc32c = 0;
  std::vector<PartEntry> parts;

  int id_bytes() const;
};

/// Bytes of the index of so many parts.
uint64_t PartitionIndexBytes(int parts);

/// Writes the index in `folder`, durably.
absl::Status WritePartitionIndex(io::FileSystem& files,
                                 const std::string& folder,
                                 const PartitionIndex& index);

/// Errors as Partition::Open.
absl::StatusOr<PartitionIndex> ReadPartitionIndex(io::FileSystem& files,
                                                  const std::string& folder);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_INDEX_H_
