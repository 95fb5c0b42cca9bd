#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/store/topology.h"

/// Reading a partition, and the files in its folder. All numbers are
/// little-endian; node ids have 4 bytes where they fit, else 8.
///
///   partition.index     written last: the summary, where each part is, and the
///                       CRC32C of each other file
///   partition.lists     each part contiguous, at a multiple of 64: [n] int64
///                       end of each list, [n] nodes, [e] neighbors
///   partition.training  [T] training nodes, part after part, ascending
///   partition.parts     [N] uint16 part of each node
///   partition.cross     [N] uint32 neighbors of each node in other parts

namespace hearth::plan {

inline constexpr char kPartitionIndexFile[] = "partition.index";
inline constexpr char kPartListsFile[] = "partition.lists";
inline constexpr char kTrainingNodesFile[] = "partition.training";
inline constexpr char kPartsFile[] = "partition.parts";
inline constexpr char kCrossCountsFile[] = "partition.cross";

/// Entry of one part in the index.
struct PartEntry {
  /// Begin of the part in the file of lists.
  uint64_t offset = 0;
  int64_t nodes = 0;
  int64_t neighbors = 0;
  int64_t training_nodes = 0;
  /// Checksum of the part's bytes in the file of lists.
  uint32_t crc32c = 0;
  uint32_t unused = 0;

  /// Bytes of the part in the file of lists.
  uint64_t bytes(int id_bytes) const {
    return static_cast<uint64_t>(nodes) * sizeof(int64_t) +
           static_cast<uint64_t>(nodes + neighbors) *
               static_cast<uint64_t>(id_bytes);
  }
};

/// Parts begin at multiples of this in the file of lists.
inline constexpr uint64_t kPartAlignment = 64;

/// Contents of the index.
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

/// Bytes of the index of `parts` parts.
uint64_t PartitionIndexBytes(int parts);

/// Writes the index in `folder`, durably.
absl::Status WritePartitionIndex(io::FileSystem& files,
                                 const std::string& folder,
                                 const PartitionIndex& index);

/// Reads the index in `folder`. Errors as Partition::Open.
absl::StatusOr<PartitionIndex> ReadPartitionIndex(io::FileSystem& files,
                                                  const std::string& folder);

/// Node ids as in the topology: of 4 bytes where they fit.
using NodeIdSpan =
    std::variant<absl::Span<const int32_t>, absl::Span<const int64_t>>;

/// Nodes of one part, and their lists of in-neighbors. Movable; views stay
/// valid when it is moved.
struct PartLists {
  /// [n] nodes, ascending.
  NodeIdSpan nodes;
  /// [n] end of each list: list i is neighbors[ends[i - 1]] ..
  /// neighbors[ends[i] - 1]; list 0 begins at 0.
  absl::Span<const int64_t> ends;
  /// [e] neighbors in the topology's order, self-loops and repetitions
  /// included.
  NodeIdSpan neighbors;
  /// Memory behind all views.
  io::AlignedMemory memory;
};

/// A partition of a graph's nodes into parts, as WritePartition has written it.
/// Holds the training nodes of all parts and 48 bytes per part; the rest is
/// read on demand, past the page cache, and checked against its CRC32C: bytes
/// that do not match are read once more, then DATA_LOSS naming the file. Open
/// files stay readable if the plan is removed. Immutable; thread-safe.
class Partition {
 public:
  /// Opens the partition in `folder`. NOT_FOUND if there is none, or it was not
  /// finished; DATA_LOSS, naming the file, if one is damaged or has the wrong
  /// size; FAILED_PRECONDITION if another version of Hearth wrote it. `files`
  /// must outlive the partition.
  static absl::StatusOr<std::shared_ptr<const Partition>> Open(
      io::FileSystem& files, const std::string& folder);
  virtual ~Partition() = default;

  virtual const PartitionSummary& summary() const = 0;
  int parts() const { return summary().options.parts; }

  /// Number of a part's nodes; a part may have none. REQUIRES: 0 <= part <
  /// parts(), here and below.
  virtual int64_t num_nodes(int part) const = 0;

  /// Number of in-neighbors of all nodes of a part.
  virtual int64_t num_neighbors(int part) const = 0;

  /// Training nodes of a part, ascending.
  virtual absl::Span<const store::NodeId> training_nodes(int part) const = 0;

  /// [nodes] part of each node.
  virtual absl::StatusOr<std::vector<uint16_t>> LoadParts() const = 0;

  /// [nodes] cross(v): neighbors of v that are not in v's part, at most
  /// UINT32_MAX.
  virtual absl::StatusOr<std::vector<uint32_t>> LoadCrossCounts() const = 0;

  /// Memory of the PartLists that ReadPart returns.
  virtual uint64_t part_list_bytes(int part) const = 0;

  /// Nodes and lists of a part, by one sequential read.
  virtual absl::StatusOr<PartLists> ReadPart(int part) const = 0;

  /// Memory of this object.
  virtual uint64_t memory_bytes() const = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_H_
