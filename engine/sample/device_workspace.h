#ifndef HEARTH_ENGINE_SAMPLE_DEVICE_WORKSPACE_H_
#define HEARTH_ENGINE_SAMPLE_DEVICE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"
#include "kernels/cuda/hearth_cuda.h"

/// What one sampler keeps for a GPU: the graph's tables, and a stream with
/// memory for nodes and edges.

namespace hearth::sample {

/// Size of a graph, as far as a GPU's memory for sampling from it depends on
/// it.
struct DeviceGraphSize {
  int64_t num_nodes = 0;
  int64_t num_types = 1;
  int64_t num_relations = 1;
  /// Edge types that lead to the node type with most of them, at least 1.
  int64_t lists_per_node = 1;

  /// Whether nodes or edges are of several types.
  bool is_typed() const { return num_types > 1 || num_relations > 1; }
};

/// Tables by which kernels find a graph's edges and learn how many each node
/// draws (HearthCudaGraph), for all layers, in one array of some KiB that is
/// copied to the device for each batch. Single-owner.
class DeviceGraph {
 public:
  /// `relations` must outlive the graph; relation i has type i.
  DeviceGraph(absl::Span<const store::Relation> relations,
              const store::NodeSpace& nodes,
              const NeighborSamplerOptions& options);

  /// Bytes of the tables.
  static uint64_t Bytes(const DeviceGraphSize& size, size_t num_layers);

  const DeviceGraphSize& size() const { return size_; }

  /// Tables for a batch, valid until the next call.
  absl::Span<const std::byte> TablesFor(const BatchKey& key);

  /// A layer's graph, for tables that lie on the device at `tables`.
  HearthCudaGraph At(const std::byte* tables, size_t layer) const;

  /// Relation of list number `list` of `node`. REQUIRES: the list exists.
  const store::Relation& RelationOf(store::NodeId node, size_t list) const;

 private:
  const absl::Span<const store::Relation> relations_;
  const store::NodeSpace nodes_;
  const NeighborSamplerOptions options_;
  // Relations that lead to each node type.
  const std::vector<std::vector<size_t>> into_;
  const DeviceGraphSize size_;
  // Relations of each layer, begin of each type, lists of each type.
  std::vector<std::byte> tables_;
};

/// Largest sizes of a batch and its graph, from which the memory to sample it
/// follows.
struct DeviceCapacity {
  /// Nodes that a batch may have met by the end of a layer.
  int64_t nodes = 0;
  /// Edges of a layer, at most.
  int64_t edges = 0;
  /// Neighbor lists of each node (HearthCudaGraph).
  int64_t lists_per_node = 1;
  /// Whether edges are of several types.
  bool has_relations = false;
  /// Bytes of the graph's tables.
  uint64_t graph_bytes = 0;

  /// Device memory that these sizes need.
  uint64_t DeviceBytes() const;
};

/// Stream and memory of one sampler on a GPU. Memory stays from batch to batch
/// and grows only for a batch larger than any before. Used by one thread at a
/// time.
class DeviceWorkspace {
 public:
  /// Arrays on the device: the nodes met so far, and a layer's destinations.
  struct NodeArrays {
    int64_t* nodes = nullptr;
    int64_t* starts = nullptr;
    int64_t* degrees = nullptr;
    int64_t* indptr = nullptr;
    int64_t* scratch = nullptr;
    // Null where nodes have one list each.
    int64_t* in_degrees = nullptr;
    int64_t* node_indptr = nullptr;
    HearthCudaNodeTable table = {};
  };

  /// Arrays on the device: a layer's edges.
  struct EdgeArrays {
    int64_t* sources = nullptr;
    int32_t* indices = nullptr;
    uint32_t* ranks = nullptr;
    // Null where edges are of one type.
    uint16_t* relations = nullptr;
  };

  /// Sizes and damage of a layer, in pinned memory for the host to read.
  struct Answer {
    HearthCudaDamage damage;
    int64_t num_edges;
    uint32_t num_new_nodes;
  };

  /// Pinned host memory of one workspace.
  static constexpr uint64_t kPinnedBytes = sizeof(Answer);

  /// A workspace for a graph with the `lists_per_node` and `has_relations` of
  /// `graph`; memory is allocated by the Reserve functions. Errors of making a
  /// stream and of allocating.
  static absl::StatusOr<std::unique_ptr<DeviceWorkspace>> Create(
      const cuda::Device& device, const DeviceCapacity& graph);
  DeviceWorkspace(const DeviceWorkspace&) = delete;
  DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;

  /// Makes memory for `nodes` nodes. Keeps the arrays of the first `kept` nodes
  /// and as many entries of indptr, but not the table: returns true if the
  /// table must be filled again. May wait for the stream. RESOURCE_EXHAUSTED if
  /// the device lacks the memory; the workspace is unusable then.
  absl::StatusOr<bool> ReserveNodes(int64_t nodes, int64_t kept);

  /// Make memory for edges, and for tables of a graph; contents are lost.
  absl::Status ReserveEdges(int64_t edges);
  absl::Status ReserveGraph(uint64_t bytes);

  cuda::Stream& stream() { return *stream_; }
  const NodeArrays& nodes() const { return nodes_; }
  const EdgeArrays& edges() const { return edges_; }
  std::byte* graph() const { return graph_.data(); }
  HearthCudaDamage* damage() const {
    return reinterpret_cast<HearthCudaDamage*>(damage_.data());
  }
  Answer& answer() { return *reinterpret_cast<Answer*>(answer_.data()); }

 private:
  DeviceWorkspace(const cuda::Device& device, const DeviceCapacity& graph)
      : device_(device),
        capacity_({.lists_per_node = graph.lists_per_node,
                   .has_relations = graph.has_relations}) {}

  absl::Status KeepNodes(const NodeArrays& to, int64_t count);

  const cuda::Device device_;
  DeviceCapacity capacity_;
  cuda::Memory graph_;
  cuda::Memory node_memory_;
  cuda::Memory edge_memory_;
  cuda::Memory damage_;
  cuda::Memory answer_;
  NodeArrays nodes_;
  EdgeArrays edges_;
  // Last member: its destructor waits for queued work before the memory goes.
  std::unique_ptr<cuda::Stream> stream_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_DEVICE_WORKSPACE_H_
