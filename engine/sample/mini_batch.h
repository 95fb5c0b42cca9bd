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

/// A sampled mini-batch, and its scratch file.

namespace hearth::sample {

/// Sampled edges of one layer, in CSC over positions: a bipartite graph from
/// num_sources nodes to num_destinations nodes. Sources and destinations are
/// prefixes of the mini-batch's input_nodes (or of its top nodes), so
/// destination d is also source d.
struct Block {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
  /// [num_destinations + 1] ascending from 0.
  std::vector<int64_t> indptr = {};
  /// [indptr.back()] positions of sources, < num_sources, in the topology's
  /// order.
  std::vector<int32_t> indices = {};
  /// [indices.size()] weights of the edges, which sum up to 1 for each
  /// destination; empty: equal weights.
  std::vector<float> weights = {};
  /// [indices.size()] types of the edges, ascending within each destination;
  /// empty: all edges are of type 0.
  std::vector<store::TypeId> edge_types = {};
};

/// Identity of a batch: equal keys and seeds give equal batches.
struct BatchKey {
  /// Epoch modulo --distinct-epochs.
  uint64_t epoch_key = 0;
  /// Index of the batch in its epoch, over all trainers.
  uint64_t batch = 0;
};

/// Sources of a batch's last block, where embeddings of some are taken from
/// earlier batches (OUTRE, section 4.3): these nodes are pulled instead of
/// computed, and nothing is sampled for them.
struct TopLayer {
  /// Distinct nodes: seeds, then their sampled neighbors.
  std::vector<store::NodeId> nodes = {};
  /// In-degree of each node in the whole graph, [nodes.size()].
  std::vector<int64_t> in_degrees = {};
  /// Type of each node, [nodes.size()]; empty: all are of type 0.
  std::vector<store::TypeId> node_types = {};
  /// Positions in `nodes`, ascending, of the nodes that the blocks below
  /// compute: the destinations of the last but one block.
  std::vector<int32_t> computed = {};
  /// Positions in `nodes`, ascending, of all other nodes.
  std::vector<int32_t> pulled = {};
  /// Positions in `nodes`, ascending, of computed nodes whose embeddings are
  /// kept for later batches.
  std::vector<int32_t> pushed = {};
  /// Sum over pulled nodes of the number of batches since each was pushed.
  int64_t sum_of_ages = 0;
};

/// A sampled mini-batch: the nodes whose features are needed, and the edges
/// along which they pass messages. Immutable once sampled.
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
  /// One block per layer, in the order in which the model uses them: all input
  /// nodes are sources of blocks[0]; the seeds are the destinations of the
  /// last.
  std::vector<Block> blocks = {};
  /// Absent: all nodes are computed, and the sources of the last block are also
  /// a prefix of input_nodes.
  std::optional<TopLayer> top = std::nullopt;
};

/// Batches in scratch files, sampled long before they are trained (the runtime
/// files ids and adj of Ginex, section 3.1). One file per batch, read by one
/// sequential read; the input nodes come first, so that they can be read alone.
/// Numbers take 4 bytes where they fit, else 8; a CRC32C covers everything.
/// Files are in the machine's byte order, readable by this version of Hearth
/// only, and not synced.

/// Writes `batch` as the file `path` and returns its size. RESOURCE_EXHAUSTED,
/// naming the bytes needed, if the disk is full; after any error the file is
/// gone.
absl::StatusOr<uint64_t> WriteSample(io::FileSystem& files,
                                     const std::string& path,
                                     const MiniBatch& batch);

/// Reads the batch of `key` that WriteSample wrote. A damaged file is read a
/// second time, then DATA_LOSS naming the file and the offset. DATA_LOSS too if
/// the file holds another batch.
absl::StatusOr<MiniBatch> ReadSample(io::FileSystem& files,
                                     const std::string& path,
                                     const BatchKey& key);

/// Reads only the input nodes of the batch of `key`, which replace `nodes`.
absl::Status ReadSampleNodes(io::FileSystem& files, const std::string& path,
                             const BatchKey& key,
                             std::vector<store::NodeId>& nodes);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_MINI_BATCH_H_
