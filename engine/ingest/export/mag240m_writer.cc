#include "engine/ingest/export/mag240m_writer.h"

#include <array>
#include <cstdint>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/npy_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_edges.h"
#include "engine/ingest/export/source_parts.h"
#include "engine/ingest/export/torch_split_output.h"
#include "engine/ingest/export/torch_writer.h"

namespace hearth::ingest {
namespace {

constexpr char kFormat[] = "mag240m";
constexpr char kPaper[] = "paper";
/// Types without features.
constexpr std::array<const char*, 2> kOthers = {"author", "institution"};

struct Relation {
  const char* source;
  const char* name;
  const char* destination;
};
constexpr std::array<Relation, 3> kRelations = {
    {{"author", "affiliated_with", "institution"},
     {"author", "writes", kPaper},
     {kPaper, "cites", kPaper}}};
constexpr size_t kCites = 2;

/// The parts of a graph and their place in the format.
struct Parts {
  SourceNodes* papers = nullptr;
  std::array<int64_t, 2> num_others = {1, 1};
  /// Null: no edges.
  std::array<SourceEdges*, 3> relations = {};
};

absl::Status Refused(absl::string_view what, const std::string& type) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph has ", what, " of type \"", absl::Utf8SafeCEscape(type),
      "\"; the format ", kFormat, " has no place for them"));
}

absl::Status PlaceNodes(SourceNodes& nodes, Parts& parts) {
  if (nodes.type == kPaper) {
    parts.papers = &nodes;
    return absl::OkStatus();
  }
  for (size_t i = 0; i < kOthers.size(); ++i) {
    if (nodes.type != kOthers[i]) continue;
    if (nodes.features != nullptr || nodes.labels != nullptr) {
      return Refused("features or labels of nodes", nodes.type);
    }
    parts.num_others[i] = nodes.num_nodes;
    return absl::OkStatus();
  }
  return Refused("nodes", nodes.type);
}

absl::Status PlaceEdges(SourceEdges& edges, Parts& parts) {
  for (size_t i = 0; i < kRelations.size(); ++i) {
    const Relation& relation = kRelations[i];
    if (edges.source_type != relation.source ||
        edges.destination_type != relation.destination ||
        edges.type != absl::StrCat(relation.source, ":", relation.name, ":",
                                   relation.destination)) {
      continue;
    }
    parts.relations[i] = &edges;
    return absl::OkStatus();
  }
  return Refused("edges", edges.type);
}

absl::StatusOr<Parts> FindParts(SourceGraph& graph) {
  Parts parts;
  if (graph.nodes.size() == 1 && graph.edges.size() == 1) {
    parts.papers = &graph.nodes[0];
    parts.relations[kCites] = &graph.edges[0];
    return parts;
  }
  for (SourceNodes& nodes : graph.nodes) {
    HEARTH_RETURN_IF_ERROR(PlaceNodes(nodes, parts));
  }
  for (SourceEdges& edges : graph.edges) {
    HEARTH_RETURN_IF_ERROR(PlaceEdges(edges, parts));
  }
  if (parts.papers != nullptr) return parts;
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph has no papers; the format ", kFormat, " needs them"));
}

absl::Status WriteRelations(ImportContext& context, const Parts& parts,
                            OutputFolder& folder) {
  for (size_t i = 0; i < kRelations.size(); ++i) {
    const Relation& relation = kRelations[i];
    const std::string path =
        absl::StrCat("processed/", relation.source, "___", relation.name, "___",
                     relation.destination, "/edge_index.npy");
    if (parts.relations[i] == nullptr) {
      HEARTH_RETURN_IF_ERROR(
          WriteNpy(folder, {path, store::DType::kInt64, {2, 0}},
                   [](ByteSink&) { return absl::OkStatus(); }));
      continue;
    }
    const EdgeList edges(*parts.relations[i]);
    HEARTH_RETURN_IF_ERROR(WriteEdgeNpy(context, folder, *edges, path));
  }
  return absl::OkStatus();
}

absl::Status WritePapers(ImportContext& context, const Parts& parts,
                         OutputFolder& folder) {
  SourceNodes& papers = *parts.papers;
  context.Begin("labels", 0);
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_classes,
                          CountClasses(context, *papers.labels));
  HEARTH_RETURN_IF_ERROR(WriteTorchCounts(folder, "meta.pt",
                                          {{kPaper, papers.num_nodes},
                                           {kOthers[0], parts.num_others[0]},
                                           {kOthers[1], parts.num_others[1]},
                                           {"num_classes", num_classes}}));
  HEARTH_RETURN_IF_ERROR(
      WriteTorchSplit(context, papers, folder, "split_dict.pt"));
  HEARTH_RETURN_IF_ERROR(WriteLabelNpy(context, folder, *papers.labels,
                                       {"processed/paper/node_label.npy",
                                        store::DType::kFloat32,
                                        {papers.num_nodes}}));
  context.Begin("features", 0);
  return WriteNpy(folder,
                  {"processed/paper/node_feat.npy", store::DType::kFloat16,
                   papers.features->header().shape},
                  [&](ByteSink& sink) {
                    return WriteFeatures(context, *papers.features,
                                         store::DType::kFloat16, sink);
                  });
}

}  // namespace

absl::Status WriteMag240m(ImportContext& context, SourceGraph& graph,
                          const std::string& destination) {
  NeededParts needed;
  needed.one_type = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, kFormat, needed));
  HEARTH_ASSIGN_OR_RETURN(const Parts parts, FindParts(graph));
  HEARTH_RETURN_IF_ERROR(CheckNodeParts(*parts.papers, kFormat));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_RETURN_IF_ERROR(WritePapers(context, parts, *folder));
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteRelations(context, parts, *folder));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
