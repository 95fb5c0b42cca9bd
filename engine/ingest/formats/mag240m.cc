#include "engine/ingest/formats/mag240m.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/source_folder.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {
namespace {

constexpr char kMetaFile[] = "meta.pt";
constexpr char kSplitFile[] = "split_dict.pt";
constexpr char kFeaturesFile[] = "processed/paper/node_feat.npy";
constexpr char kLabelsFile[] = "processed/paper/node_label.npy";
constexpr char kPaper[] = "paper";
constexpr std::array<const char*, 3> kNodeTypes = {"author", "institution",
                                                   kPaper};

struct Relation {
  const char* source;
  const char* name;
  const char* destination;
};
constexpr std::array<Relation, 3> kRelations = {
    {{"author", "affiliated_with", "institution"},
     {"author", "writes", kPaper},
     {kPaper, "cites", kPaper}}};

/// All node types, with their numbers of nodes.
absl::StatusOr<SourceGraph> ReadCounts(io::FileSystem& files,
                                       const std::string& folder) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> meta,
      OpenTorchFile(files, io::JoinPath(folder, kMetaFile)));
  SourceGraph graph;
  for (const char* type : kNodeTypes) {
    SourceNodes nodes;
    nodes.type = type;
    HEARTH_ASSIGN_OR_RETURN(nodes.num_nodes, ReadTorchCount(*meta, type));
    graph.nodes.push_back(std::move(nodes));
  }
  return graph;
}

absl::Status OpenSplit(ImportContext& context, const std::string& folder,
                       SourceNodes& papers,
                       std::vector<std::string>& transforms) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> file,
      OpenTorchFile(context.files(), io::JoinPath(folder, kSplitFile)));
  const PickleValue& dict = file->root();
  const bool has_whole = dict.Find("test-whole") != nullptr;
  if (has_whole && dict.Find("test") != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->path(),
                     ": has \"test\" and \"test-whole\"; which of them is the "
                     "test part?"));
  }
  const std::array<const char*, 3> keys = {"train", "valid",
                                           has_whole ? "test-whole" : "test"};
  for (size_t i = 0; i < keys.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(papers.split[i],
                            OpenTorchArray(context, *file, dict, keys[i]));
  }
  if (has_whole) {
    transforms.push_back(
        absl::StrCat(kSplitFile, ": test-whole is the test part"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceEdges> OpenRelation(io::FileSystem& files,
                                         const std::string& folder,
                                         const Relation& relation,
                                         const SourceGraph& graph) {
  SourceEdges edges;
  edges.type = absl::StrCat(relation.source, ":", relation.name, ":",
                            relation.destination);
  edges.source_type = relation.source;
  edges.destination_type = relation.destination;
  const std::string path = io::JoinPath(
      folder, absl::StrCat("processed/", relation.source, "___", relation.name,
                           "___", relation.destination, "/edge_index.npy"));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> array,
                          ArrayReader::OpenNpy(files, path));
  HEARTH_ASSIGN_OR_RETURN(
      edges.edges, NewArrayEdgeSource(std::move(array), graph.EndsOf(edges),
                                      EdgeShape::kRows));
  return edges;
}

/// Warns of what there is beside the graph, such as the papers' years.
absl::Status WarnOfUnused(io::FileSystem& files, const std::string& folder,
                          SourceGraph& graph) {
  for (const char* type : kNodeTypes) {
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files, io::JoinPath(folder, absl::StrCat("processed/", type)),
        type == absl::string_view(kPaper)
            ? std::vector<std::string>{"node_feat.npy", "node_label.npy"}
            : std::vector<std::string>(),
        graph.warnings));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> RecognizeMag240m(io::FileSystem& files,
                                             const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const bool meta,
                          Exists(files, io::JoinPath(source, kMetaFile)));
  HEARTH_ASSIGN_OR_RETURN(const bool features,
                          Exists(files, io::JoinPath(source, kFeaturesFile)));
  return meta && features
             ? absl::StrCat("it has ", kMetaFile, " and ", kFeaturesFile)
             : "";
}

absl::StatusOr<SourceGraph> OpenMag240m(ImportContext& context,
                                        const std::string& source) {
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, ReadCounts(files, source));
  SourceNodes& papers = graph.nodes.back();
  HEARTH_ASSIGN_OR_RETURN(
      papers.features,
      ArrayReader::OpenNpy(files, io::JoinPath(source, kFeaturesFile)));
  HEARTH_ASSIGN_OR_RETURN(
      papers.labels,
      ArrayReader::OpenNpy(files, io::JoinPath(source, kLabelsFile)));
  HEARTH_RETURN_IF_ERROR(OpenSplit(context, source, papers, graph.transforms));
  for (const Relation& relation : kRelations) {
    HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                            OpenRelation(files, source, relation, graph));
    graph.edges.push_back(std::move(edges));
  }
  HEARTH_RETURN_IF_ERROR(WarnOfUnused(files, source, graph));
  return graph;
}

}  // namespace hearth::ingest
