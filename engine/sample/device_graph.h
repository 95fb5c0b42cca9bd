#ifndef HEARTH_ENGINE_SAMPLE_DEVICE_GRAPH_H_
#define HEARTH_ENGINE_SAMPLE_DEVICE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/node_space.h"
#include "engine/store/topology.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::sample {

/// The size of a graph, as far as the memory of a GPU that samples from it
/// depends on it.
struct DeviceGraphSize {
  int64_t num_nodes = 0;
  int64_t num_types = 1;
  int64_t num_relations = 1;
  /// Edge types that lead to the node type that has most of them, at least 1.
  int64_t lists_per_node = 1;

  /// Whether nodes or edges are of several types.
  bool is_typed() const { return num_types > 1 || num_relations > 1; }
};

/// The tables by which kernels find the edges of a graph and know how many of
/// them a batch draws (HearthCudaGraph), for all layers, in one piece that is
/// copied to the device for each batch: some KiB. Single-owner.
class DeviceGraph {
 public:
  /// `relations` outlive it; relation i has type i.
  DeviceGraph(absl::Span<const store::Relation> relations,
              const store::NodeSpace& nodes,
              const NeighborSamplerOptions& options);

  /// Bytes of the tables.
  static uint64_t Bytes(const DeviceGraphSize& size, size_t num_layers);

  const DeviceGraphSize& size() const { return size_; }

  /// The tables for a batch, valid until the next call.
  absl::Span<const std::byte> TablesFor(const BatchKey& key);

  /// A layer's graph, whose tables lie on the device at `tables`.
  HearthCudaGraph At(const std::byte* tables, size_t layer) const;

  /// The relation of list `list` of `node`. REQUIRES: there is one.
  const store::Relation& RelationOf(store::NodeId node, size_t list) const;

 private:
  const absl::Span<const store::Relation> relations_;
  const store::NodeSpace nodes_;
  const NeighborSamplerOptions options_;
  // By node type: the relations that lead to it.
  const std::vector<std::vector<size_t>> into_;
  const DeviceGraphSize size_;
  // The relations of each layer, where types begin, the lists of each type.
  std::vector<std::byte> tables_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_DEVICE_GRAPH_H_
