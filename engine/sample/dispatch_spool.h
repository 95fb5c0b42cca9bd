#ifndef HEARTH_ENGINE_SAMPLE_DISPATCH_SPOOL_H_
#define HEARTH_ENGINE_SAMPLE_DISPATCH_SPOOL_H_

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"

/// Lists of nodes, turned from "by target" into "by partition of the nodes"
/// (DispatchSpool).

namespace hearth::sample {

/// The dispatch spool: the destinations of rows, turned from "by batch" into
/// "by partition of the feature file", so that batched packing (DiskGNN,
/// section 5.2) serves all batches while one partition is in memory; and the
/// nodes whose neighbors batches draw, turned into "by slab". A scratch file of
/// blocks: each partition has a buffer of one block, which is appended,
/// with its CRC32C, when it is full; offsets of blocks are kept in memory, 8
/// bytes each. In the machine's byte order, not synced.

struct DispatchOptions {
  int64_t num_partitions = 0;
  /// Nodes of a partition; below 2^32. 0: the caller tells where each node
  /// belongs (AddTo).
  int64_t partition_nodes = 0;
  /// Bytes of a block; a multiple of 4.
  uint64_t block_bytes = 0;

  /// Memory of buffers, and of one reader.
  uint64_t memory_bytes() const {
    return (static_cast<uint64_t>(num_partitions) + 1) * block_bytes;
  }
};

/// Spools lists of nodes by target and partition. Single-owner, except that
/// readers may be different threads.
class DispatchSpool {
 public:
  /// Called with a target and the nodes that go there, in the order of adding,
  /// numbered within the partition.
  using Visit = absl::FunctionRef<absl::Status(
      uint32_t target, absl::Span<const uint32_t> nodes)>;

  /// `files` outlives the spool. RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<std::unique_ptr<DispatchSpool>> Create(
      io::FileSystem& files, std::string path, const DispatchOptions& options);

  /// Removes the file.
  ~DispatchSpool();

  /// Adds that `nodes`, ascending, go to `target`. REQUIRES: partition_nodes.
  absl::Status Add(uint32_t target, absl::Span<const store::NodeId> nodes);

  /// Adds that `nodes` of a partition, in any order and numbered within it, go
  /// to `target`.
  absl::Status AddTo(int64_t partition, uint32_t target,
                     absl::Span<const uint32_t> nodes);

  /// Ends adding; `readers` threads may read. Frees the buffers, except a block
  /// for each reader.
  absl::Status EndAdding(int readers = 1);

  /// Calls `visit` with everything added for a partition, in the order of
  /// adding, in pieces of any size. Damaged blocks are read once more, then
  /// DATA_LOSS naming file and offset. Readers are numbered from 0; each may be
  /// another thread. REQUIRES: EndAdding was called.
  absl::Status ForEach(int64_t partition, Visit visit, int reader = 0);

  /// Blocks of a partition, in the order of adding.
  int64_t num_blocks(int64_t partition) const {
    return std::ssize(blocks_[partition]);
  }

  /// ForEach for one block of a partition.
  absl::Status ForEachInBlock(int64_t partition, int64_t block, Visit visit,
                              int reader = 0);

 private:
  DispatchSpool(io::FileSystem& files, std::string path,
                const DispatchOptions& options,
                std::unique_ptr<io::WritableFile> file,
                io::AlignedMemory buffers);

  absl::Span<uint32_t> Block(int64_t number);
  template <typename Node>
  absl::Status AddToPartition(int64_t partition, uint32_t target,
                              absl::Span<const Node> nodes, Node first);
  absl::Status Flush(int64_t partition);
  absl::Status ReadBlock(uint64_t offset, absl::Span<uint32_t> block);

  io::FileSystem& files_;
  const std::string path_;
  const DispatchOptions options_;
  std::unique_ptr<io::WritableFile> file_;
  std::unique_ptr<io::ReadableFile> reader_;
  // While adding, one block for each partition; then one for each reader.
  io::AlignedMemory buffers_;
  // Words used in each partition's block.
  std::vector<uint32_t> filled_;
  // Offsets of each partition's blocks.
  std::vector<std::vector<uint64_t>> blocks_;
  uint64_t end_ = 0;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_DISPATCH_SPOOL_H_
