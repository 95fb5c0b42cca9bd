#include "engine/ingest/import/feature_fill.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/feature_writer.h"
#include "engine/ingest/import/neighbor_means.h"
#include "engine/ingest/import/reverse_types.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/import/written_array.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/row_source.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"

// A type's edges are gone through by node, those of all its edge types
// together: as they lie in the dataset where they lead to it; else sorted once
// more, by their sources, in the scratch folder. Nothing is held of all nodes.

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr uint64_t kBlocksInLimit = 16;
constexpr int64_t kPageBytes = 4096;

/// Type and width of a feature matrix.
struct FeatureKind {
  store::DType dtype = store::DType::kFloat32;
  int64_t num_columns = 0;

  friend bool operator==(const FeatureKind&, const FeatureKind&) = default;
};

size_t IndexOf(const SourceGraph& graph, const std::string& type) {
  return static_cast<size_t>(graph.FindNodes(type) - graph.nodes.data());
}

/// The kind of rows that most edges lead to or come from, of edge types and the
/// kinds at their other ends; the first of equals.
FeatureKind MostEdges(
    const SourceGraph& graph,
    const std::vector<std::pair<size_t, FeatureKind>>& others) {
  FeatureKind most = others.front().second;
  int64_t most_edges = -1;
  for (const auto& [unused, kind] : others) {
    int64_t edges = 0;
    for (const auto& [edge_type, other] : others) {
      if (other == kind) edges += graph.edges[edge_type].num_edges();
    }
    if (edges > most_edges) most = kind;
    most_edges = std::max(most_edges, edges);
  }
  return most;
}

/// The fill of a type, by those that have features; nothing if no edges join it
/// with one of them.
std::optional<FeatureFill> PlanFill(
    const SourceGraph& graph, size_t node_type,
    const std::vector<std::optional<FeatureKind>>& kinds) {
  const std::string& name = graph.nodes[node_type].type;
  // The kind of rows at the other end of each edge type that has some.
  std::vector<std::pair<size_t, FeatureKind>> others;
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const SourceEdges& edges = graph.edges[i];
    if (edges.source_type != name && edges.destination_type != name) continue;
    const auto& kind =
        kinds[IndexOf(graph, edges.source_type == name ? edges.destination_type
                                                       : edges.source_type)];
    if (kind.has_value()) others.emplace_back(i, *kind);
  }
  if (others.empty()) return std::nullopt;
  const FeatureKind chosen = MostEdges(graph, others);
  FeatureFill fill;
  fill.node_type = node_type;
  fill.dtype = chosen.dtype;
  fill.num_columns = chosen.num_columns;
  for (const auto& [edge_type, kind] : others) {
    (kind == chosen ? fill.edge_types : fill.left_out).push_back(edge_type);
  }
  return fill;
}

/// The lists of neighbors of a topology, from the first node to the last.
class NeighborLists {
 public:
  NeighborLists(std::unique_ptr<ArrayReader> indptr,
                std::unique_ptr<ArrayReader> indices)
      : indptr_(std::move(indptr)), indices_(std::move(indices)) {}

  /// Calls `take` with the next node's neighbors, in pieces.
  absl::Status Next(
      absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> take) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t end, NextEnd());
    while (at_ < end) {
      if (at_ == buffer_end_) {
        const int64_t left = indices_->header().shape[0] - at_;
        buffer_.resize(static_cast<size_t>(std::min(kBlockElements, left)));
        HEARTH_RETURN_IF_ERROR(
            indices_->ReadInts(at_, absl::MakeSpan(buffer_)));
        buffer_end_ = at_ + static_cast<int64_t>(buffer_.size());
      }
      const int64_t count = std::min(end, buffer_end_) - at_;
      HEARTH_RETURN_IF_ERROR(take(absl::MakeConstSpan(buffer_).subspan(
          buffer_.size() - static_cast<size_t>(buffer_end_ - at_),
          static_cast<size_t>(count))));
      at_ += count;
    }
    return absl::OkStatus();
  }

 private:
  /// Where the next node's list ends in indices.
  absl::StatusOr<int64_t> NextEnd() {
    if (next_ == ends_.size()) {
      const int64_t left = indptr_->header().shape[0] - first_end_;
      ends_.resize(static_cast<size_t>(std::min(kBlockElements, left)));
      HEARTH_RETURN_IF_ERROR(
          indptr_->ReadInts(first_end_, absl::MakeSpan(ends_)));
      first_end_ += static_cast<int64_t>(ends_.size());
      next_ = 0;
    }
    const int64_t end = ends_[next_++];
    if (end >= at_ && end <= indices_->header().shape[0]) return end;
    return indptr_->Error("was changed while it was read");
  }

  std::unique_ptr<ArrayReader> indptr_;
  std::unique_ptr<ArrayReader> indices_;
  /// The next offset of indptr to read; those that are at hand.
  int64_t first_end_ = 1;
  std::vector<int64_t> ends_;
  size_t next_ = 0;
  /// The next element of indices; those that are at hand, and where they end.
  int64_t at_ = 0;
  int64_t buffer_end_ = 0;
  std::vector<int64_t> buffer_;
};

/// Writes rows in blocks of whole pages, where a block has room for one.
class RowOutput {
 public:
  static absl::StatusOr<RowOutput> Create(ImportContext& context,
                                          FeatureWriter writer,
                                          int64_t row_bytes,
                                          const RowObserver& observer) {
    const int64_t limit = std::max<int64_t>(
        1, static_cast<int64_t>(context.memory_limit_bytes() / kBlocksInLimit) /
               row_bytes);
    const int64_t whole = kPageBytes / std::gcd(kPageBytes, row_bytes);
    const int64_t rows = limit < whole ? limit : limit / whole * whole;
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory memory,
        io::AlignedMemory::Allocate(static_cast<uint64_t>(rows * row_bytes)));
    return RowOutput(context, std::move(writer), row_bytes, observer,
                     std::move(memory));
  }

  absl::Status Append(absl::Span<const std::byte> row) {
    std::copy(row.begin(), row.end(), memory_.bytes().begin() + filled_);
    filled_ += static_cast<int64_t>(row.size());
    return filled_ < static_cast<int64_t>(memory_.bytes().size())
               ? absl::OkStatus()
               : Flush();
  }

  absl::StatusOr<store::FinishedArray> Finish() {
    HEARTH_RETURN_IF_ERROR(Flush());
    return writer_.Finish();
  }

 private:
  RowOutput(ImportContext& context, FeatureWriter writer, int64_t row_bytes,
            const RowObserver& observer, io::AlignedMemory memory)
      : context_(context),
        writer_(std::move(writer)),
        row_bytes_(row_bytes),
        observer_(observer),
        memory_(std::move(memory)) {}

  absl::Status Flush() {
    if (filled_ == 0) return absl::OkStatus();
    const RowBlock block{next_row_, filled_ / row_bytes_,
                         memory_.bytes().first(static_cast<size_t>(filled_))};
    HEARTH_RETURN_IF_ERROR(writer_.Append(block.bytes));
    if (observer_) HEARTH_RETURN_IF_ERROR(observer_(block));
    next_row_ += block.num_rows;
    filled_ = 0;
    return context_.Advance(block.bytes.size());
  }

  ImportContext& context_;
  FeatureWriter writer_;
  int64_t row_bytes_;
  const RowObserver& observer_;
  io::AlignedMemory memory_;
  int64_t filled_ = 0;
  int64_t next_row_ = 0;
};

const store::NodeTypeEntry& NodesOf(const store::Manifest& manifest,
                                    const std::string& type) {
  return *std::find_if(
      manifest.node_types.begin(), manifest.node_types.end(),
      [&](const store::NodeTypeEntry& nodes) { return nodes.name == type; });
}

/// The lists of `edges` by the nodes of `type`, which is at either end.
absl::StatusOr<NeighborLists> OpenLists(ImportContext& context,
                                        const store::Manifest& manifest,
                                        const store::EdgeTypeEntry& edges,
                                        const std::string& type,
                                        const store::ArrayPlace& place) {
  std::string folder = place.folder;
  store::ArrayFile indptr = edges.indptr, indices = edges.indices;
  if (edges.destination_type != type) {
    HEARTH_ASSIGN_OR_RETURN(folder, context.NewScratchPath("reversed"));
    HEARTH_RETURN_IF_ERROR(context.files().CreateDirectory(folder));
    const EdgeEnds ends{NodesOf(manifest, edges.source_type).num_nodes,
                        NodesOf(manifest, edges.destination_type).num_nodes};
    HEARTH_ASSIGN_OR_RETURN(
        CscArrays arrays,
        ReverseWritten(context, place.folder, edges, ends,
                       {folder, place.dataset, place.prefix}));
    indptr = std::move(arrays.indptr.file);
    indices = std::move(arrays.indices.file);
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> opened_indptr,
                          OpenWritten(context.files(), folder, indptr));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> opened_indices,
                          OpenWritten(context.files(), folder, indices));
  return NeighborLists(std::move(opened_indptr), std::move(opened_indices));
}

}  // namespace

absl::StatusOr<std::vector<FeatureFill>> PlanFeatureFills(
    const SourceGraph& graph, const std::string& source) {
  std::vector<std::optional<FeatureKind>> kinds;
  for (const SourceNodes& nodes : graph.nodes) {
    kinds.emplace_back();
    if (nodes.features == nullptr) continue;
    const store::ArrayHeader& header = nodes.features->header();
    kinds.back() = FeatureKind{StoredType(header), header.shape[1]};
  }
  if (std::none_of(kinds.begin(), kinds.end(),
                   [](const auto& kind) { return kind.has_value(); })) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": no nodes have features, so none can be filled from them"));
  }
  std::vector<FeatureFill> fills;
  for (bool found = true; found;) {
    found = false;
    const std::vector<std::optional<FeatureKind>> before = kinds;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (before[i].has_value()) continue;
      std::optional<FeatureFill> fill = PlanFill(graph, i, before);
      if (!fill.has_value()) continue;
      found = true;
      kinds[i] = FeatureKind{fill->dtype, fill->num_columns};
      fills.push_back(*std::move(fill));
    }
  }
  return fills;
}

uint64_t BytesToFill(const SourceGraph& graph,
                     const std::vector<FeatureFill>& fills) {
  uint64_t bytes = 0;
  for (const FeatureFill& fill : fills) {
    const SourceNodes& nodes = graph.nodes[fill.node_type];
    bytes += FeatureBytes(nodes.num_nodes,
                          fill.num_columns * store::SizeOf(fill.dtype));
    for (const size_t i : fill.edge_types) {
      const SourceEdges& edges = graph.edges[i];
      if (edges.destination_type == nodes.type) continue;
      const EdgeEnds ends = graph.EndsOf(edges);
      bytes += BytesToSort(edges.num_edges(),
                           {ends.num_destinations, ends.num_sources});
    }
  }
  return bytes;
}

absl::StatusOr<store::FinishedArray> WriteFill(ImportContext& context,
                                               const store::Manifest& manifest,
                                               const FeatureFill& fill,
                                               const RowObserver& observer,
                                               const store::ArrayPlace& place) {
  const store::NodeTypeEntry& nodes = manifest.node_types[fill.node_type];
  std::vector<NeighborLists> lists;
  std::vector<const store::ArrayFile*> matrices;
  for (const size_t i : fill.edge_types) {
    const store::EdgeTypeEntry& edges = manifest.edge_types[i];
    HEARTH_ASSIGN_OR_RETURN(
        NeighborLists opened,
        OpenLists(context, manifest, edges, nodes.name, place));
    lists.push_back(std::move(opened));
    matrices.push_back(&NodesOf(manifest, edges.destination_type == nodes.name
                                              ? edges.source_type
                                              : edges.destination_type)
                            .features);
  }
  const int64_t row_bytes = fill.num_columns * store::SizeOf(fill.dtype);
  HEARTH_ASSIGN_OR_RETURN(
      FeatureWriter writer,
      FeatureWriter::Create(context.files(), place, fill.dtype,
                            {nodes.num_nodes, fill.num_columns}));
  HEARTH_ASSIGN_OR_RETURN(
      RowOutput output,
      RowOutput::Create(context, std::move(writer), row_bytes, observer));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<NeighborMeans> means,
      NewNeighborMeans(context, place.folder, matrices,
                       [&output](absl::Span<const std::byte> mean) {
                         return output.Append(mean);
                       }));
  context.Begin("features", static_cast<uint64_t>(nodes.num_nodes * row_bytes));
  for (int64_t node = 0; node < nodes.num_nodes; ++node) {
    for (size_t i = 0; i < lists.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(
          lists[i].Next([&](absl::Span<const int64_t> neighbors) {
            return means->Add(i, neighbors);
          }));
    }
    HEARTH_RETURN_IF_ERROR(means->EndNode());
  }
  HEARTH_RETURN_IF_ERROR(means->Finish());
  return output.Finish();
}

}  // namespace hearth::ingest
