#include "engine/feed/batch_layout.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

namespace hearth::feed {

namespace {

using sample::Block;
using sample::MiniBatch;
using store::NodeId;
using store::TypeId;

constexpr uint64_t kAlignment = 64;

uint64_t ElementBytes(Array::Type type) {
  return type == Array::Type::kFloat32 ? sizeof(float) : sizeof(int64_t);
}

// The type of node or edge `i`: without types all are of type 0.
TypeId TypeAt(const std::vector<TypeId>& types, size_t i) {
  return types.empty() ? TypeId{0} : types[i];
}

// Checks.

template <typename T>
bool IsPrefix(const std::vector<T>& part, const std::vector<T>& whole) {
  return part.size() <= whole.size() &&
         std::equal(part.begin(), part.end(), whole.begin());
}

absl::Status CheckLabels(const train::BatchView& batch,
                         const FeedGraph& graph) {
  const store::LabelsView& labels = batch.labels;
  if (graph.label_width == 0 ||
      (labels.kind == graph.label_kind && labels.width == graph.label_width &&
       labels.num_rows == batch.sample.num_seeds)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      labels.num_rows, " labels (", store::Name(labels.kind), ", ",
      labels.width, ") for ", batch.sample.num_seeds, " seeds with labels (",
      store::Name(graph.label_kind), ", ", graph.label_width, ")"));
}

// Checks that each block has the first destinations of blocks[0], with all of
// their edges, and no weights.
absl::Status CheckIsGraph(const MiniBatch& sample) {
  const Block& all = sample.blocks.front();
  for (size_t layer = 0; layer < sample.blocks.size(); ++layer) {
    const Block& block = sample.blocks[layer];
    if (!block.weights.empty()) {
      return absl::InvalidArgumentError(
          "the batch's edges have weights, which differ from layer to layer: "
          "it is not one graph");
    }
    if (layer > 0 &&
        (block.num_sources != sample.blocks[layer - 1].num_destinations ||
         !IsPrefix(block.indptr, all.indptr) ||
         !IsPrefix(block.indices, all.indices) ||
         !IsPrefix(block.edge_types, all.edge_types))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the edges of layer ", layer,
          " are not the first of layer 0: the batch is not one graph, as the "
          "sampler \"subgraph\" makes"));
    }
  }
  return absl::OkStatus();
}

// Description.

void Append(Array array, BatchArrays& to) {
  if (!array.in_rows) {
    array.offset = to.bytes;
    to.bytes += RoundUp(array.bytes(), kAlignment);
  }
  to.arrays.push_back(std::move(array));
}

void AppendNodes(int64_t num_nodes, std::optional<uint32_t> type,
                 BatchArrays& to) {
  Append({.name = "n_id", .shape = {num_nodes}, .of_type = type}, to);
  Append({.name = "in_degrees", .shape = {num_nodes}, .of_type = type}, to);
}

// Arrays of the seeds; `num_labels` rows of labels.
void AppendSeeds(int64_t num_labels, const FeedGraph& graph,
                 const BatchExtras& extras, BatchArrays& to) {
  std::optional<uint32_t> of_type;
  if (to.layout == BatchLayout::kGraph && graph.is_typed()) {
    of_type = graph.target;
  }
  if (graph.label_width > 0) {
    Array y = {.name = "y", .shape = {num_labels}, .of_type = of_type};
    if (graph.label_kind != store::LabelKind::kClasses) {
      y.type = Array::Type::kFloat32;
      y.shape.push_back(graph.label_width);
    }
    Append(std::move(y), to);
  }
  if (!extras.input_id.empty()) {
    Append({.name = "input_id",
            .shape = {std::ssize(extras.input_id)},
            .of_type = of_type},
           to);
  }
}

// Counts by type of the nodes or edges between one end and the next.
// REQUIRES: ascending ends.
std::vector<Counts> CountTypes(const std::vector<TypeId>& types,
                               const std::vector<int64_t>& ends,
                               size_t num_types) {
  std::vector<Counts> counts(num_types);
  for (size_t type = 0; type < num_types; ++type) {
    counts[type] = {.type = static_cast<uint32_t>(type),
                    .counts = std::vector<int64_t>(ends.size())};
  }
  int64_t begin = 0;
  for (size_t hop = 0; hop < ends.size(); ++hop) {
    if (types.empty()) {
      counts[0].counts[hop] = ends[hop] - begin;
    } else {
      for (int64_t i = begin; i < ends[hop]; ++i) {
        ++counts[types[static_cast<size_t>(i)]].counts[hop];
      }
    }
    begin = ends[hop];
  }
  return counts;
}

int64_t Sum(const Counts& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts.counts) sum += count;
  return sum;
}

// Sets the numbers of nodes and edges of each hop.
void CountHops(const MiniBatch& sample, const FeedGraph& graph,
               BatchArrays& to) {
  std::vector<int64_t> node_ends = {sample.num_seeds};
  std::vector<int64_t> edge_ends;
  for (auto block = sample.blocks.rbegin(); block != sample.blocks.rend();
       ++block) {
    node_ends.push_back(block->num_sources);
    edge_ends.push_back(std::ssize(block->indices));
  }
  const std::vector<TypeId> one_type;
  const bool typed = graph.is_typed();
  to.num_sampled_nodes =
      CountTypes(typed ? sample.node_types : one_type, node_ends,
                 typed ? graph.nodes.num_types() : 1);
  to.num_sampled_edges =
      CountTypes(typed ? sample.blocks.front().edge_types : one_type, edge_ends,
                 typed ? graph.num_edge_types : 1);
}

void DescribeGraph(const MiniBatch& sample, const FeedGraph& graph,
                   const BatchExtras& extras, BatchArrays& to) {
  CountHops(sample, graph, to);
  const int64_t num_labels =
      extras.all_labels
          ? Sum(to.num_sampled_nodes[graph.is_typed() ? graph.target : 0])
          : sample.num_seeds;
  if (!graph.is_typed()) {
    AppendNodes(std::ssize(sample.input_nodes), std::nullopt, to);
    AppendSeeds(num_labels, graph, extras, to);
    Append({.name = "edge_index",
            .shape = {2, std::ssize(sample.blocks.front().indices)}},
           to);
    return;
  }
  for (const Counts& nodes : to.num_sampled_nodes) {
    AppendNodes(Sum(nodes), nodes.type, to);
    Append({.name = "rows", .shape = {Sum(nodes)}, .of_type = nodes.type}, to);
  }
  AppendSeeds(num_labels, graph, extras, to);
  for (const Counts& edges : to.num_sampled_edges) {
    Append(
        {.name = "edge_index", .shape = {2, Sum(edges)}, .of_type = edges.type},
        to);
  }
}

void DescribeLayers(const MiniBatch& sample, const FeedGraph& graph,
                    const BatchExtras& extras, BatchArrays& to) {
  AppendNodes(std::ssize(sample.input_nodes), std::nullopt, to);
  if (graph.is_typed()) {
    Append({.name = "node_type", .shape = {std::ssize(sample.input_nodes)}},
           to);
  }
  AppendSeeds(
      extras.all_labels ? std::ssize(sample.input_nodes) : sample.num_seeds,
      graph, extras, to);
  for (uint32_t layer = 0; layer < sample.blocks.size(); ++layer) {
    const Block& block = sample.blocks[layer];
    const int64_t num_edges = std::ssize(block.indices);
    to.layers.push_back({.num_sources = block.num_sources,
                         .num_destinations = block.num_destinations});
    Append({.name = "edge_index", .shape = {2, num_edges}, .layer = layer}, to);
    if (!block.weights.empty()) {
      Append({.name = "edge_weight",
              .type = Array::Type::kFloat32,
              .shape = {num_edges},
              .layer = layer},
             to);
    }
    if (graph.is_typed()) {
      Append({.name = "edge_type", .shape = {num_edges}, .layer = layer}, to);
    }
  }
}

// Contents. Positions and ids are copied, widened or counted up, in loops over
// the batch, each of which fills one array, or one for each type.

// First elements of all arrays of that name, in the order of types or layers.
template <typename T>
std::vector<T*> Find(absl::string_view name, const BatchArrays& arrays,
                     std::byte* memory) {
  std::vector<T*> found;
  for (const Array& array : arrays.arrays) {
    if (array.name == name) {
      found.push_back(reinterpret_cast<T*>(memory + array.offset));
    }
  }
  return found;
}

float* FillMultiLabel(const store::LabelsView& labels, int64_t row, float* to) {
  const uint8_t* const bits = labels.BitRow(row);
  for (int64_t column = 0; column < labels.width; ++column) {
    const float label = store::HasBit(bits, column) ? 1 : 0;
    *to++ = labels.IsKnown(row, column)
                ? label
                : std::numeric_limits<float>::quiet_NaN();
  }
  return to;
}

// Writes labels one after the other, each of a row of `labels`.
class LabelWriter {
 public:
  LabelWriter(const store::LabelsView& labels, std::byte* to)
      : labels_(labels),
        classes_(reinterpret_cast<int64_t*>(to)),
        values_(reinterpret_cast<float*>(to)) {}

  // Absent: the node has no label.
  void Write(std::optional<int64_t> row) {
    const bool labeled = row.has_value() && labels_.IsLabeled(*row);
    if (labels_.kind == store::LabelKind::kClasses) {
      *classes_++ = labeled ? labels_.classes[static_cast<size_t>(*row)] : -1;
    } else if (!labeled) {
      values_ = std::fill_n(values_, labels_.width,
                            std::numeric_limits<float>::quiet_NaN());
    } else if (labels_.kind == store::LabelKind::kMultiLabel) {
      values_ = FillMultiLabel(labels_, *row, values_);
    } else {
      values_ = std::copy_n(labels_.TargetRow(*row), labels_.width, values_);
    }
  }

 private:
  const store::LabelsView labels_;
  int64_t* classes_;
  float* values_;
};

void FillLabels(const BatchArrays& arrays, const train::BatchView& batch,
                const FeedGraph& graph, bool all, std::byte* memory) {
  for (std::byte* const y : Find<std::byte>("y", arrays, memory)) {
    if (!all) {
      LabelWriter writer(batch.labels, y);
      for (int64_t row = 0; row < batch.labels.num_rows; ++row) {
        writer.Write(row);
      }
      continue;
    }
    const MiniBatch& sample = batch.sample;
    const NodeId first = graph.nodes.First(graph.target);
    LabelWriter writer(batch.all_labels->view(), y);
    for (size_t i = 0; i < sample.input_nodes.size(); ++i) {
      if (TypeAt(sample.node_types, i) == graph.target) {
        writer.Write(sample.input_nodes[i] - first);
      } else if (arrays.layout == BatchLayout::kLayers) {
        writer.Write(std::nullopt);
      }
    }
  }
}

void FillInputId(const BatchArrays& arrays, const BatchExtras& extras,
                 std::byte* memory) {
  for (int64_t* const to : Find<int64_t>("input_id", arrays, memory)) {
    std::copy(extras.input_id.begin(), extras.input_id.end(), to);
  }
}

// The edges of a block: all sources, then all destinations.
void FillEdges(const Block& block, int64_t* to) {
  int64_t* const destinations =
      std::copy(block.indices.begin(), block.indices.end(), to);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    std::fill(destinations + block.indptr[row],
              destinations + block.indptr[row + 1], row);
  }
}

// Arrays of node types; returns the position of each input node among those of
// its type.
std::vector<int64_t> FillTypedNodes(const BatchArrays& arrays,
                                    const MiniBatch& sample,
                                    const FeedGraph& graph, std::byte* memory) {
  const std::vector<int64_t*> n_id = Find<int64_t>("n_id", arrays, memory);
  const std::vector<int64_t*> rows = Find<int64_t>("rows", arrays, memory);
  const std::vector<int64_t*> in_degrees =
      Find<int64_t>("in_degrees", arrays, memory);
  std::vector<int64_t> next(graph.nodes.num_types());
  std::vector<int64_t> positions(sample.input_nodes.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    const TypeId type = TypeAt(sample.node_types, i);
    const int64_t position = next[type]++;
    positions[i] = position;
    n_id[type][position] = sample.input_nodes[i] - graph.nodes.First(type);
    rows[type][position] = static_cast<int64_t>(i);
    in_degrees[type][position] = sample.in_degrees[i];
  }
  return positions;
}

// edge_index of edge types; `positions` as of FillTypedNodes.
void FillTypedEdges(const BatchArrays& arrays, const Block& block,
                    const std::vector<int64_t>& positions, std::byte* memory) {
  // Next source and destination of each type.
  std::vector<std::array<int64_t*, 2>> next;
  const std::vector<int64_t*> edge_index =
      Find<int64_t>("edge_index", arrays, memory);
  for (size_t type = 0; type < edge_index.size(); ++type) {
    next.push_back({edge_index[type],
                    edge_index[type] + Sum(arrays.num_sampled_edges[type])});
  }
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      auto& [source, destination] =
          next[TypeAt(block.edge_types, static_cast<size_t>(edge))];
      *source++ = positions[static_cast<size_t>(block.indices[edge])];
      *destination++ = positions[static_cast<size_t>(row)];
    }
  }
}

// n_id and in_degrees over all types.
void FillNodes(const BatchArrays& arrays, const MiniBatch& sample,
               std::byte* memory) {
  std::copy(sample.input_nodes.begin(), sample.input_nodes.end(),
            Find<int64_t>("n_id", arrays, memory).front());
  std::copy(sample.in_degrees.begin(), sample.in_degrees.end(),
            Find<int64_t>("in_degrees", arrays, memory).front());
}

// Copies types; where there are none all are of type 0.
void FillTypes(const std::vector<TypeId>& types, int64_t count, int64_t* to) {
  if (types.empty()) {
    std::fill(to, to + count, 0);
  } else {
    std::copy(types.begin(), types.end(), to);
  }
}

void FillLayers(const BatchArrays& arrays, const MiniBatch& sample,
                const FeedGraph& graph, std::byte* memory) {
  FillNodes(arrays, sample, memory);
  for (const Array& array : arrays.arrays) {
    if (!array.layer.has_value() && array.name != "node_type") continue;
    std::byte* const to = memory + array.offset;
    auto* const numbers = reinterpret_cast<int64_t*>(to);
    if (array.name == "node_type") {
      FillTypes(sample.node_types, array.shape[0], numbers);
      continue;
    }
    const Block& block = sample.blocks[*array.layer];
    if (array.name == "edge_index") {
      FillEdges(block, numbers);
    } else if (array.name == "edge_type") {
      FillTypes(block.edge_types, array.shape[0], numbers);
    } else {
      std::copy(block.weights.begin(), block.weights.end(),
                reinterpret_cast<float*>(to));
    }
  }
}

}  // namespace

FeedGraph FeedGraph::Of(const store::Manifest& manifest, size_t target) {
  const store::NodeTypeEntry& type = manifest.node_types[target];
  return {.nodes = store::NodeSpace(manifest),
          .num_edge_types = static_cast<uint32_t>(manifest.edge_types.size()),
          .target = static_cast<uint32_t>(target),
          .label_kind = type.label_kind,
          .label_width = type.label_width};
}

uint64_t Array::bytes() const {
  uint64_t bytes = ElementBytes(type);
  for (const int64_t length : shape) bytes *= static_cast<uint64_t>(length);
  return bytes;
}

absl::StatusOr<BatchArrays> DescribeArrays(BatchLayout layout,
                                           const train::BatchView& batch,
                                           const FeedGraph& graph,
                                           const BatchExtras& extras) {
  const MiniBatch& sample = batch.sample;
  if (sample.blocks.empty()) {
    return absl::InvalidArgumentError("the batch has no layers");
  }
  if (sample.top.has_value()) {
    return absl::InvalidArgumentError(
        "the batch takes embeddings from earlier batches");
  }
  HEARTH_RETURN_IF_ERROR(CheckLabels(batch, graph));
  BatchArrays arrays = {.layout = layout};
  Append({.name = "x",
          .type = Array::Type::kFloat32,
          .shape = {std::ssize(sample.input_nodes), batch.feature_dim},
          .in_rows = true},
         arrays);
  switch (layout) {
    case BatchLayout::kGraph:
      HEARTH_RETURN_IF_ERROR(CheckIsGraph(sample));
      DescribeGraph(sample, graph, extras, arrays);
      break;
    case BatchLayout::kLayers:
      DescribeLayers(sample, graph, extras, arrays);
      break;
  }
  return arrays;
}

void FillArrays(const BatchArrays& arrays, const train::BatchView& batch,
                const FeedGraph& graph, std::byte* memory,
                const BatchExtras& extras) {
  const MiniBatch& sample = batch.sample;
  FillLabels(arrays, batch, graph, extras.all_labels, memory);
  FillInputId(arrays, extras, memory);
  if (arrays.layout == BatchLayout::kLayers) {
    FillLayers(arrays, sample, graph, memory);
  } else if (graph.is_typed()) {
    FillTypedEdges(arrays, sample.blocks.front(),
                   FillTypedNodes(arrays, sample, graph, memory), memory);
  } else {
    FillNodes(arrays, sample, memory);
    FillEdges(sample.blocks.front(),
              Find<int64_t>("edge_index", arrays, memory).front());
  }
}

uint64_t MostArrayBytes(BatchLayout layout, const sample::BatchShape& shape,
                        const FeedGraph& graph) {
  if (shape.edges.empty()) return 0;
  const bool typed = graph.is_typed();
  const bool one_graph = layout == BatchLayout::kGraph;
  // n_id, in_degrees, and with types rows or node_type.
  const uint64_t of_nodes = typed ? 3 : 2;
  const uint64_t of_label = graph.label_kind == store::LabelKind::kClasses
                                ? sizeof(int64_t)
                                : sizeof(float) * graph.label_width;
  uint64_t of_edge = 2 * sizeof(int64_t);
  if (!one_graph && typed) of_edge += sizeof(int64_t);
  if (!one_graph && shape.listed_edges > 0) of_edge += sizeof(float);
  const auto edges = static_cast<uint64_t>(one_graph ? shape.edges.front()
                                                     : shape.num_edges());
  uint64_t bytes =
      sizeof(int64_t) * of_nodes * shape.num_inputs() + of_edge * edges;
  // Labels may be of all nodes.
  if (graph.label_width > 0) bytes += of_label * shape.num_inputs();
  bytes += sizeof(int64_t) * shape.nodes.back();
  // Each array may begin up to `kAlignment` bytes behind the one before.
  const uint64_t num_arrays =
      one_graph && typed
          ? of_nodes * graph.nodes.num_types() + 2 + graph.num_edge_types
          : of_nodes + 2 + 3 * shape.edges.size();
  return bytes + kAlignment * num_arrays;
}

}  // namespace hearth::feed
