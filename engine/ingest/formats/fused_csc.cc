#include "engine/ingest/formats/fused_csc.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/formats/torch_value.h"
#include "engine/ingest/import/csc_copy.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"

namespace hearth::ingest {
namespace {

// Types are told apart by an integer per edge; GraphBolt's own is a uint8.
constexpr size_t kMaxTypes = 4096;

absl::Status Invalid(const TorchFile& file, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", problem));
}

/// The dictionary within the objects.
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

/// The names in a dictionary from names to ids 0, 1, 2, ..., by id.
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

}  // namespace hearth::ingest
