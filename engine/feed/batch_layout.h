#ifndef HEARTH_ENGINE_FEED_BATCH_LAYOUT_H_
#define HEARTH_ENGINE_FEED_BATCH_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/train/train_step.h"

/// Batches as arrays that models of clients take: what arrays a batch has
/// (DescribeArrays), their bytes (FillArrays), and how much memory they need
/// (MostArrayBytes). Pure functions and plain data; thread-safe.
///
/// Arrays, in row-major order, of a shard with N input nodes and B seeds:
///
///     x           float32 [N, feature_dim], the input rows
///     n_id        int64 [N], ids of the input nodes, over all types
///     in_degrees  int64 [N], their in-degrees in the whole graph
///     y           of the seeds: int64 [B] classes, -1 where not known; float32
///                 [B, W] labels, 0 or 1, or targets; NaN where not known. None
///                 without labels. Or of all nodes (BatchExtras::all_labels).
///     input_id    int64 [B], BatchExtras::input_id
///     edge_index  int64 [2, edges], positions of sources, then of destinations
///
/// With BatchLayout::kGraph, edge_index has all edges of the batch, hop by hop.
/// In graphs with types (FeedGraph::is_typed) y and input_id are of the seeds'
/// type; there are n_id, numbered within the type, and in_degrees for each node
/// type, and edge_index for each edge type, with positions among the batch's
/// nodes of one type; and
///
///     rows        int64 [N of the type], positions of its nodes in x
///
/// With BatchLayout::kLayers there is an edge_index for each layer, and
///
///     edge_weight float32 [edges], for each layer whose edges have weights
///     edge_type   int64 [edges], for each layer, in graphs with types
///     node_type   int64 [N], once, in graphs with types

namespace hearth::feed {

/// How the edges of a batch are numbered.
enum class BatchLayout {
  /// As one graph, or one for each edge type, as PyG's NeighborLoader does.
  kGraph,
  /// As a bipartite graph for each layer.
  kLayers,
};

/// What all batches of a graph have in common.
struct FeedGraph {
  /// The graph of a dataset, where seeds are of node type `target`.
  static FeedGraph Of(const store::Manifest& manifest, size_t target);

  bool is_typed() const { return nodes.num_types() > 1 || num_edge_types > 1; }

  /// Numbers of the nodes of each type.
  store::NodeSpace nodes = {};
  uint32_t num_edge_types = 1;
  /// Node type of the seeds.
  uint32_t target = 0;
  /// Labels of the seeds; a width of 0: there are none.
  store::LabelKind label_kind = store::LabelKind::kClasses;
  int64_t label_width = 0;
};

/// What a client gets of a batch that is not in the batch itself.
struct BatchExtras {
  /// Whether y has the labels of all input nodes; with kGraph, of those of the
  /// seeds' type. Nodes of other types have none.
  bool all_labels = false;
  /// [B] Places of the seeds in the nodes of the pass; empty: no array.
  absl::Span<const int64_t> input_id = {};
};

/// An array of a batch.
struct Array {
  enum class Type { kFloat32, kInt64 };

  uint64_t bytes() const;

  std::string name;
  Type type = Type::kInt64;
  std::vector<int64_t> shape = {};
  /// First byte, a multiple of 64.
  uint64_t offset = 0;
  /// Whether it is in the memory of the input rows (BatchView::input_memory),
  /// not among those that FillArrays fills in: "x" alone.
  bool in_rows = false;
  /// Node type or edge type that it is of; absent: of all.
  std::optional<uint32_t> of_type = std::nullopt;
  /// Layer that it is of, in the order in which the model uses them; absent: of
  /// the whole batch.
  std::optional<uint32_t> layer = std::nullopt;
};

/// Counts of one type, hop by hop.
struct Counts {
  uint32_t type = 0;
  std::vector<int64_t> counts = {};
};

/// Nodes of a layer.
struct LayerSize {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
};

/// The arrays of a batch.
struct BatchArrays {
  BatchLayout layout = BatchLayout::kGraph;
  std::vector<Array> arrays = {};
  /// kGraph, one for each type (one in all without types), as PyG's
  /// num_sampled_nodes and num_sampled_edges: the nodes that are seeds, then
  /// those that each hop added; the edges of each hop.
  std::vector<Counts> num_sampled_nodes = {};
  std::vector<Counts> num_sampled_edges = {};
  /// kLayers: in the order in which the model uses them.
  std::vector<LayerSize> layers = {};
  /// Memory of the arrays, "x" apart.
  uint64_t bytes = 0;
};

/// Places the arrays of `batch` one after the other. INVALID_ARGUMENT if labels
/// are not as `graph` has them, if embeddings come from earlier batches
/// (sample::TopLayer), or for kGraph if edges have weights or the blocks are
/// not parts of one graph (sample::NeighborSamplerOptions::once). REQUIRES: the
/// batch has labels of all nodes, if they are wanted.
absl::StatusOr<BatchArrays> DescribeArrays(BatchLayout layout,
                                           const train::BatchView& batch,
                                           const FeedGraph& graph,
                                           const BatchExtras& extras = {});

/// Writes the arrays, "x" apart, to `memory`, of arrays.bytes bytes, 64-byte
/// aligned. REQUIRES: `arrays` describes `batch`, with equal `extras`.
void FillArrays(const BatchArrays& arrays, const train::BatchView& batch,
                const FeedGraph& graph, std::byte* memory,
                const BatchExtras& extras = {});

/// Upper bound of BatchArrays::bytes for batches with as many layers as
/// `shape`, and none larger, whatever the extras.
uint64_t MostArrayBytes(BatchLayout layout, const sample::BatchShape& shape,
                        const FeedGraph& graph);

}  // namespace hearth::feed

#endif  // HEARTH_ENGINE_FEED_BATCH_LAYOUT_H_
