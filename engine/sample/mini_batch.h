#ifndef HEARTH_ENGINE_SAMPLE_MINI_BATCH_H_
#define HEARTH_ENGINE_SAMPLE_MINI_BATCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// One layer's sampled edges, in CSC over positions: a bipartite graph from
/// num_sources nodes to num_destinations nodes. Both are prefixes of the
/// mini-batch's input_nodes (or of its top nodes), so destination d is also
/// source d.
struct Block {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  /// [num_destinations + 1] ascending from 0.
  std::vector<int64_t> indptr = {};
  /// [indptr.back()] positions of sources, < num_sources, in the order in
  /// which the topology lists them.
  std::vector<int32_t> indices = {};
  /// [indices.size()] weights of the edges, those of each destination of sum 1;
  /// empty: they are equal.
  std::vector<float> weights = {};
  /// [indices.size()] types of the edges, those of each destination ascending;
  /// empty: all are of type 0.
  std::vector<store::TypeId> edge_types = {};
};

/// The batch's identity: equal keys (and seeds) give equal batches.
struct BatchKey {
  /// Epoch modulo --distinct-epochs.
  uint64_t epoch_key = 0;
  /// Index of the batch in its epoch, over all trainers.
  uint64_t batch = 0;
};

/// The sources of a batch's last block, where embeddings of some of them are
/// those of earlier batches (OUTRE, section 4.3): these are pulled, not
/// computed, and nothing is sampled for them.
struct TopLayer {
  /// Distinct nodes: seeds, then their sampled neighbors.
  std::vector<store::NodeId> nodes = {};
  /// In-degree of each in the whole graph, [nodes.size()].
  std::vector<int64_t> in_degrees = {};
  /// Type of each, [nodes.size()]; empty: all are of type 0.
  std::vector<store::TypeId> node_types = {};
  /// Positions in `nodes`, ascending, of those that the blocks below compute:
  /// they are the destinations of the last but one block.
  std::vector<int32_t> computed = {};
  /// Positions, ascending, of the others.
  std::vector<int32_t> pulled = {};
  /// Positions, ascending, of computed nodes whose embeddings are kept for
  /// later batches.
  std::vector<int32_t> pushed = {};
  /// Batches since each pulled one was pushed, added up.
  int64_t sum_of_ages = 0;
};

/// A sampled mini-batch: the nodes whose features are needed and how they pass
/// messages. Immutable once sampled.
struct MiniBatch {
  BatchKey key;
  /// Seeds are the first num_seeds input nodes, or nodes of `top`.
  int64_t num_seeds = 0;
  /// Distinct nodes: seeds (or computed nodes of `top`), then the newly met
  /// neighbors hop by hop.
  std::vector<store::NodeId> input_nodes = {};
  /// In-degree of each input node in the whole graph, over all edge types,
  /// [input_nodes.size()].
  std::vector<int64_t> in_degrees = {};
  /// Types of the input nodes, [input_nodes.size()]; empty: all are of type 0.
  std::vector<store::TypeId> node_types = {};
  /// One per layer, in the order the model uses them: blocks[0] has all input
  /// nodes as sources; the last one has the seeds as destinations.
  std::vector<Block> blocks = {};
  /// Absent: all nodes are computed, and the sources of the last block are a
  /// prefix of input_nodes, too.
  std::optional<TopLayer> top = std::nullopt;
};

/// Sampled batches in files, for who samples long before the batch is needed
/// (the runtime files ids and adj of Ginex, section 3.1). One file a batch,
/// read by one sequential read; the input nodes stand first, so that they can
/// be read alone. Numbers take 4 bytes where they fit, else 8. Everything is
/// covered by a CRC32C. A scratch format: in the machine's byte order, of this
/// version of Hearth alone, not synced.

/// Writes `batch` as the file `path` and returns its size. RESOURCE_EXHAUSTED,
/// naming the bytes needed, if the disk is full; after any error the file is
/// gone.
absl::StatusOr<uint64_t> WriteSample(io::FileSystem& files,
                                     const std::string& path,
                                     const MiniBatch& batch);

/// Reads the sample that WriteSample wrote for the batch of `key`. A damaged
/// file is read once more, then DATA_LOSS naming the file and the offset; so is
/// a batch of another key.
absl::StatusOr<MiniBatch> ReadSample(io::FileSystem& files,
                                     const std::string& path,
                                     const BatchKey& key);

/// Its input nodes alone. They replace `nodes`.
absl::Status ReadSampleNodes(io::FileSystem& files, const std::string& path,
                             const BatchKey& key,
                             std::vector<store::NodeId>& nodes);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_MINI_BATCH_H_
