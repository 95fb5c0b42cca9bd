#include "engine/ingest/formats/fused_csc.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/scratch_array.h"

namespace hearth::ingest {

namespace {

// Limit on types. Edge types are integers; GraphBolt's own are uint8.
constexpr size_t kMaxTypes = 4096;

absl::Status Invalid(const TorchFile& file, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", problem));
}

/// The state dictionary within the objects.
absl::StatusOr<const PickleValue*> FindState(const TorchFile& file) {
  const auto* const graph = file.root().As<PickleObject>();
  if (graph != nullptr && graph->state != nullptr &&
      absl::EndsWith(graph->class_name, "CSCSamplingGraph")) {
    const PickleValue* const script = graph->state->Find("_c_csc_graph");
    const auto* const object =
        script == nullptr ? nullptr : script->As<PickleObject>();
    const auto* const pair = object == nullptr || object->state == nullptr
                                 ? nullptr
                                 : object->state->As<PickleTuple>();
    if (pair != nullptr && !pair->items.empty() &&
        pair->items[0]->As<PickleDict>() != nullptr) {
      return pair->items[0];
    }
  }
  return Invalid(file, "holds no FusedCSCSamplingGraph of GraphBolt's");
}

absl::StatusOr<int64_t> ReadScalar(const TorchFile& file,
                                   const PickleValue* value,
                                   absl::string_view name) {
  if (const auto* const number = value->As<int64_t>()) return *number;
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> array,
                          OpenTorchValue(file, value, name));
  if (array->header().type.IsFloat() || array->header().NumElements() != 1) {
    return array->Error("is not one whole number");
  }
  int64_t number = 0;
  HEARTH_RETURN_IF_ERROR(array->ReadInts(0, absl::MakeSpan(&number, 1)));
  return number;
}

/// Names in a dictionary that maps names to ids 0, 1, 2, ..., ordered by id.
absl::StatusOr<std::vector<std::string>> ReadTypes(const TorchFile& file,
                                                   const PickleValue& state,
                                                   const std::string& key) {
  const PickleValue* const value = state.Find(key);
  const auto* const ids = value == nullptr ? nullptr : value->As<PickleDict>();
  if (ids == nullptr || ids->items.empty() || ids->items.size() > kMaxTypes) {
    return Invalid(file,
                   absl::StrCat("has edges of several types, but no ", key));
  }
  std::vector<std::string> names(ids->items.size());
  for (const auto& [name, id] : ids->items) {
    const auto* const text = name->As<std::string>();
    HEARTH_ASSIGN_OR_RETURN(const int64_t number, ReadScalar(file, id, key));
    const bool fits = text != nullptr && !text->empty() && number >= 0 &&
                      number < static_cast<int64_t>(names.size()) &&
                      names[static_cast<size_t>(number)].empty();
    if (!fits) {
      return Invalid(
          file, absl::StrCat(key, " does not number its ", names.size(),
                             " types 0 .. ", names.size() - 1, ", each once"));
    }
    names[static_cast<size_t>(number)] = *text;
  }
  return names;
}

absl::Status CheckList(const ArrayReader& array, int64_t count,
                       absl::string_view why) {
  const store::ArrayHeader& header = array.header();
  if (header.type.IsFloat() ||
      header.type.kind == store::ElementType::Kind::kBool ||
      header.shape.size() != 1) {
    return array.Error("is no list of integers");
  }
  if (header.shape[0] == count) return absl::OkStatus();
  return array.Error(absl::StrCat("has ", header.shape[0], " elements; with ",
                                  why, " it must have ", count));
}

absl::Status ReadNodeTypeOffset(ArrayReader& array, FusedCsc& graph) {
  const size_t count = graph.node_types.size() + 1;
  HEARTH_RETURN_IF_ERROR(
      CheckList(array, static_cast<int64_t>(count),
                absl::StrCat(graph.node_types.size(), " types of nodes")));
  std::vector<int64_t>& offset = graph.node_type_offset;
  offset.resize(count);
  HEARTH_RETURN_IF_ERROR(array.ReadInts(0, absl::MakeSpan(offset)));
  if (offset[0] != 0 || !std::is_sorted(offset.begin(), offset.end()) ||
      offset.back() != graph.num_nodes()) {
    return array.Error(absl::StrCat("does not ascend from 0 to ",
                                    graph.num_nodes(),
                                    ", the number of nodes"));
  }
  return absl::OkStatus();
}

absl::Status ReadHeterogeneous(const TorchFile& file, const PickleValue& state,
                               const PickleValue& tensors, FusedCsc& graph) {
  HEARTH_ASSIGN_OR_RETURN(graph.node_types,
                          ReadTypes(file, state, "node_type_to_id"));
  HEARTH_ASSIGN_OR_RETURN(graph.edge_types,
                          ReadTypes(file, state, "edge_type_to_id"));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> offset,
                          OpenTorchValue(file, tensors.Find("node_type_offset"),
                                         "node_type_offset"));
  HEARTH_RETURN_IF_ERROR(ReadNodeTypeOffset(*offset, graph));
  HEARTH_ASSIGN_OR_RETURN(
      graph.type_per_edge,
      OpenTorchValue(file, tensors.Find("type_per_edge"), "type_per_edge"));
  const int64_t num_edges = graph.indices->header().shape[0];
  return CheckList(*graph.type_per_edge, num_edges,
                   absl::StrCat(num_edges, " edges"));
}

void ListAttributes(const PickleValue& state, FusedCsc& graph) {
  for (const char* const kind : {"node_attributes", "edge_attributes"}) {
    const PickleValue* const value = state.Find(kind);
    const auto* const all =
        value == nullptr ? nullptr : value->As<PickleDict>();
    if (all == nullptr) continue;
    for (const auto& [name, unused] : all->items) {
      const auto* const text = name->As<std::string>();
      if (text != nullptr) graph.attributes.push_back(*text);
    }
  }
}

}  // namespace

absl::StatusOr<FusedCsc> OpenFusedCsc(io::FileSystem& files,
                                      const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TorchFile> file,
                          OpenTorchFile(files, path));
  HEARTH_ASSIGN_OR_RETURN(const PickleValue* const state, FindState(*file));
  const PickleValue* const tensors = state->Find("independent_tensors");
  if (tensors == nullptr) return Invalid(*file, "has no independent_tensors");
  FusedCsc graph;
  graph.path = path;
  HEARTH_ASSIGN_OR_RETURN(
      graph.indptr, OpenTorchValue(*file, tensors->Find("indptr"), "indptr"));
  HEARTH_ASSIGN_OR_RETURN(
      graph.indices,
      OpenTorchValue(*file, tensors->Find("indices"), "indices"));
  const std::vector<int64_t>& shape = graph.indptr->header().shape;
  if (shape.size() != 1 || shape[0] < 1) {
    return graph.indptr->Error("has no element for each node and one more");
  }
  HEARTH_RETURN_IF_ERROR(CheckCscHeaders(
      *graph.indptr, *graph.indices, {graph.num_nodes(), graph.num_nodes()}));
  ListAttributes(*state, graph);
  if (tensors->Find("type_per_edge") != nullptr ||
      state->Find("edge_type_to_id") != nullptr) {
    HEARTH_RETURN_IF_ERROR(ReadHeterogeneous(*file, *state, *tensors, graph));
  }
  return graph;
}

std::vector<SourceNodes> NodesOf(const FusedCsc& graph) {
  std::vector<SourceNodes> nodes(
      graph.is_heterogeneous() ? graph.node_types.size() : 1);
  if (!graph.is_heterogeneous()) {
    nodes[0].num_nodes = graph.num_nodes();
    return nodes;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].type = graph.node_types[i];
    nodes[i].num_nodes =
        graph.node_type_offset[i + 1] - graph.node_type_offset[i];
  }
  return nodes;
}

namespace {

constexpr int64_t kBlockElements = 32 << 10;
// Bytes of the buffers of a spool: its own and the one of reads for it.
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

/// Reads all edges, from the first node to the last.
class EdgeWalk {
 public:
  EdgeWalk(ImportContext& context, FusedCsc& graph,
           std::vector<EdgeList>& lists)
      : context_(context), graph_(graph), lists_(lists) {}

  /// Appends the edges to the spools that exist.
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

  /// Advances to the node that `edge` leads to.
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

  /// Checks that no node after the last edge has edges.
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
  /// Node that the current edge leads to.
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
    // Names are still needed by later passes.
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
