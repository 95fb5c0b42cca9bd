#include "engine/ingest/formats/fused_csc_edges.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/edge_type.h"
#include "engine/ingest/import/edge_spool.h"
#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 32 << 10;
// Buffer of a spool, and of the reads for it, in bytes.
constexpr uint64_t kSpoolBytes = 256 << 10;

/// Consecutive ids of the nodes of a type.
struct IdRange {
  int64_t first = 0;
  int64_t end = 0;

  bool Holds(int64_t id) const { return id >= first && id < end; }
};

/// Edges of one type, and the ids that their ends may have.
struct EdgeList {
  SourceEdges edges;
  IdRange sources;
  IdRange destinations;
  std::unique_ptr<EdgeSpool> spool;
};

absl::StatusOr<IdRange> FindIds(const FusedCsc& graph,
                                const std::string& edge_type,
                                const std::string& node_type) {
  const auto found =
      std::find(graph.node_types.begin(), graph.node_types.end(), node_type);
  if (found == graph.node_types.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(graph.path, ": edges of type \"", absl::CEscape(edge_type),
                     "\" join nodes of type \"", absl::CEscape(node_type),
                     "\", which it does not have"));
  }
  const auto type = static_cast<size_t>(found - graph.node_types.begin());
  return IdRange{graph.node_type_offset[type],
                 graph.node_type_offset[type + 1]};
}

absl::StatusOr<std::vector<EdgeList>> ListEdgeTypes(const FusedCsc& graph) {
  std::vector<EdgeList> lists;
  for (const std::string& type : graph.edge_types) {
    std::optional<SourceEdges> edges = EdgesOfType(type);
    if (!edges.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(graph.path, ": \"", absl::CEscape(type),
                       "\" is no type of edges; \"source:relation:destination",
                       "\" is needed"));
    }
    EdgeList list;
    HEARTH_ASSIGN_OR_RETURN(list.sources,
                            FindIds(graph, type, edges->source_type));
    HEARTH_ASSIGN_OR_RETURN(list.destinations,
                            FindIds(graph, type, edges->destination_type));
    list.edges = *std::move(edges);
    lists.push_back(std::move(list));
  }
  return lists;
}

/// Reads through the edges, from the first node to the last.
class EdgeWalk {
 public:
  EdgeWalk(ImportContext& context, FusedCsc& graph,
           std::vector<EdgeList>& lists)
      : context_(context), graph_(graph), lists_(lists) {}

  /// Appends the edges to the spools that there are.
  absl::Status Run() {
    const int64_t num_edges = graph_.indices->header().shape[0];
    context_.Begin("unpacking", static_cast<uint64_t>(num_edges));
    HEARTH_RETURN_IF_ERROR(FillOffsets(0));
    if (offsets_[0] != 0) {
      return graph_.indptr->ErrorAt(
          0, absl::StrCat("is ", offsets_[0], ", not 0"));
    }
    for (int64_t first = 0; first < num_edges; first += kBlockElements) {
      const auto count =
          static_cast<size_t>(std::min(kBlockElements, num_edges - first));
      sources_.resize(count);
      types_.resize(count);
      HEARTH_RETURN_IF_ERROR(
          graph_.indices->ReadInts(first, absl::MakeSpan(sources_)));
      HEARTH_RETURN_IF_ERROR(
          graph_.type_per_edge->ReadInts(first, absl::MakeSpan(types_)));
      for (size_t i = 0; i < count; ++i) {
        const int64_t edge = first + static_cast<int64_t>(i);
        HEARTH_RETURN_IF_ERROR(FindDestination(edge));
        HEARTH_RETURN_IF_ERROR(Take(edge, sources_[i], types_[i]));
      }
      HEARTH_RETURN_IF_ERROR(context_.Advance(count));
    }
    return CheckEnd(num_edges);
  }

 private:
  int64_t OffsetAfter(int64_t node) const {
    return offsets_[static_cast<size_t>(node + 1 - first_offset_)];
  }

  /// Reads the offsets from node `first` on.
  absl::Status FillOffsets(int64_t first) {
    const int64_t count = graph_.indptr->header().shape[0];
    first_offset_ = first;
    offsets_.resize(
        static_cast<size_t>(std::min(kBlockElements, count - first)));
    return graph_.indptr->ReadInts(first, absl::MakeSpan(offsets_));
  }

  /// Goes on to the node to which `edge` leads.
  absl::Status FindDestination(int64_t edge) {
    while (true) {
      if (node_ == graph_.num_nodes()) {
        return graph_.indptr->ErrorAt(
            node_, absl::StrCat("is ", edge, "; there are ",
                                graph_.indices->header().shape[0], " edges"));
      }
      if (node_ + 1 - first_offset_ == static_cast<int64_t>(offsets_.size())) {
        HEARTH_RETURN_IF_ERROR(FillOffsets(node_));
      }
      const int64_t end = OffsetAfter(node_);
      if (end < edge) {
        return graph_.indptr->ErrorAt(
            node_ + 1,
            absl::StrCat("is ", end, ", less than ", edge, " before it"));
      }
      if (edge < end) return absl::OkStatus();
      ++node_;
    }
  }

  absl::Status Take(int64_t edge, int64_t source, int64_t type) {
    if (type < 0 || type >= static_cast<int64_t>(lists_.size())) {
      return graph_.type_per_edge->ErrorAt(
          edge, absl::StrCat("is ", type, "; types of edges are 0 .. ",
                             lists_.size() - 1));
    }
    EdgeList& list = lists_[static_cast<size_t>(type)];
    if (!list.sources.Holds(source)) {
      return graph_.indices->ErrorAt(
          edge, absl::StrCat("is ", source, "; edges of type \"",
                             absl::CEscape(list.edges.type), "\" come from ",
                             list.sources.first, " .. ", list.sources.end - 1));
    }
    if (!list.destinations.Holds(node_)) {
      return graph_.indices->ErrorAt(
          edge, absl::StrCat("leads to ", node_, "; edges of type \"",
                             absl::CEscape(list.edges.type), "\" lead to ",
                             list.destinations.first, " .. ",
                             list.destinations.end - 1));
    }
    if (list.spool == nullptr) return absl::OkStatus();
    return list.spool->Add(source - list.sources.first,
                           node_ - list.destinations.first);
  }

  /// OK if no node after the last edge has edges.
  absl::Status CheckEnd(int64_t num_edges) {
    for (; node_ < graph_.num_nodes(); ++node_) {
      if (node_ + 1 - first_offset_ == static_cast<int64_t>(offsets_.size())) {
        HEARTH_RETURN_IF_ERROR(FillOffsets(node_));
      }
      if (OffsetAfter(node_) == num_edges) continue;
      return graph_.indptr->ErrorAt(
          node_ + 1, absl::StrCat("is ", OffsetAfter(node_), "; there are ",
                                  num_edges, " edges"));
    }
    return absl::OkStatus();
  }

  ImportContext& context_;
  FusedCsc& graph_;
  std::vector<EdgeList>& lists_;
  /// The node to which the current edge leads.
  int64_t node_ = 0;
  /// Offsets of the nodes from first_offset_ on.
  int64_t first_offset_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> sources_;
  std::vector<int64_t> types_;
};

absl::StatusOr<std::vector<SourceEdges>> SplitByType(ImportContext& context,
                                                     FusedCsc& graph) {
  HEARTH_ASSIGN_OR_RETURN(std::vector<EdgeList> lists, ListEdgeTypes(graph));
  const int64_t num_edges = graph.indices->header().shape[0];
  const EdgeEnds ends{graph.num_nodes(), graph.num_nodes()};
  HEARTH_RETURN_IF_ERROR(
      context.CheckSpace(static_cast<uint64_t>(num_edges) *
                             static_cast<uint64_t>(ScratchEdgeBytes(ends)),
                         "splitting the edges by type"));
  const size_t at_once =
      std::max<size_t>(1, context.memory_limit_bytes() / 4 / kSpoolBytes);
  std::vector<SourceEdges> edges;
  while (edges.size() < lists.size()) {
    const size_t begin = edges.size();
    const size_t end = std::min(lists.size(), begin + at_once);
    for (size_t i = begin; i < end; ++i) {
      HEARTH_ASSIGN_OR_RETURN(lists[i].spool, EdgeSpool::Create(context));
    }
    HEARTH_RETURN_IF_ERROR(EdgeWalk(context, graph, lists).Run());
    for (size_t i = begin; i < end; ++i) {
      HEARTH_ASSIGN_OR_RETURN(lists[i].edges.edges, lists[i].spool->Finish());
      lists[i].spool = nullptr;
      edges.push_back(std::move(lists[i].edges));
    }
    // Names are still needed, for the passes that follow.
    for (size_t i = begin; i < end; ++i) {
      lists[i].edges.type = graph.edge_types[i];
    }
  }
  return edges;
}

}  // namespace

absl::StatusOr<std::vector<SourceEdges>> EdgesOf(ImportContext& context,
                                                 FusedCsc graph) {
  if (graph.is_heterogeneous()) return SplitByType(context, graph);
  std::vector<SourceEdges> edges(1);
  edges[0].indptr = std::move(graph.indptr);
  edges[0].indices = std::move(graph.indices);
  return edges;
}

}  // namespace hearth::ingest
