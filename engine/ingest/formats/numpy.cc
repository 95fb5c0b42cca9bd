#include "engine/ingest/formats/numpy.h"

#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/source_folder.h"
#include "engine/ingest/import/feature_import.h"

namespace hearth::ingest {
namespace {

constexpr char kFeaturesFile[] = "node_feat.npy";
constexpr char kLabelsFile[] = "node_label.npy";
constexpr char kEdgesFile[] = "edge_index.npy";
constexpr char kIndptrFile[] = "indptr.npy";
constexpr char kIndicesFile[] = "indices.npy";
constexpr std::array<const char*, 3> kSplitFiles = {
    "train_idx.npy", "valid_idx.npy", "test_idx.npy"};

absl::StatusOr<SourceNodes> OpenNodes(io::FileSystem& files,
                                      const std::string& folder) {
  const auto open = [&](const char* name) {
    return ArrayReader::OpenNpy(files, io::JoinPath(folder, name));
  };
  SourceNodes nodes;
  HEARTH_ASSIGN_OR_RETURN(nodes.features, open(kFeaturesFile));
  HEARTH_RETURN_IF_ERROR(CheckFeatureShape(*nodes.features));
  nodes.num_nodes = nodes.features->header().shape[0];
  HEARTH_ASSIGN_OR_RETURN(nodes.labels, open(kLabelsFile));
  for (size_t i = 0; i < kSplitFiles.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(nodes.split[i], open(kSplitFiles[i]));
  }
  return nodes;
}

absl::StatusOr<SourceEdges> OpenEdges(io::FileSystem& files,
                                      const std::string& folder,
                                      int64_t num_nodes) {
  const auto path = [&](const char* name) {
    return io::JoinPath(folder, name);
  };
  HEARTH_ASSIGN_OR_RETURN(const bool list, Exists(files, path(kEdgesFile)));
  HEARTH_ASSIGN_OR_RETURN(const bool indptr, Exists(files, path(kIndptrFile)));
  HEARTH_ASSIGN_OR_RETURN(const bool indices,
                          Exists(files, path(kIndicesFile)));
  const bool csc = indptr || indices;
  if (csc && list) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder,
                     ": has edge_index.npy and indptr.npy or "
                     "indices.npy; which of them holds the edges?"));
  }
  SourceEdges edges;
  if (csc) {
    HEARTH_ASSIGN_OR_RETURN(edges.indptr,
                            ArrayReader::OpenNpy(files, path(kIndptrFile)));
    HEARTH_ASSIGN_OR_RETURN(edges.indices,
                            ArrayReader::OpenNpy(files, path(kIndicesFile)));
    return edges;
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> array,
                          ArrayReader::OpenNpy(files, path(kEdgesFile)));
  HEARTH_ASSIGN_OR_RETURN(
      edges.edges,
      NewArrayEdgeSource(std::move(array), {num_nodes, num_nodes}));
  return edges;
}

}  // namespace

absl::StatusOr<std::string> RecognizeNumpyFolder(io::FileSystem& files,
                                                 const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const bool found,
                          Exists(files, io::JoinPath(source, kFeaturesFile)));
  return found ? absl::StrCat("it has ", kFeaturesFile) : "";
}

absl::StatusOr<SourceGraph> OpenNumpyFolder(ImportContext& context,
                                            const std::string& source) {
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(context.files(), source));
  SourceGraph graph;
  HEARTH_ASSIGN_OR_RETURN(SourceNodes nodes,
                          OpenNodes(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                          OpenEdges(context.files(), source, nodes.num_nodes));
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  return graph;
}

}  // namespace hearth::ingest
