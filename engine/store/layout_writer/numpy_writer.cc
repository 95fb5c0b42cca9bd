#include "engine/store/layout_writer/numpy_writer.h"

#include <array>
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/store/layout_writer/layout_folder.h"
#include "engine/store/layout_writer/npy_output.h"
#include "engine/store/layout_writer/source_parts.h"

namespace hearth::store {
namespace {

constexpr std::array<const char*, 3> kSplitFiles = {
    "train_idx.npy", "valid_idx.npy", "test_idx.npy"};

absl::Status WriteEdges(ImportContext& context, SourceEdges& edges,
                        LayoutFolder& folder) {
  if (edges.edges != nullptr) {
    return WriteEdgeNpy(context, folder, *edges.edges, "edge_index.npy");
  }
  HEARTH_RETURN_IF_ERROR(
      WriteIntegerNpy(context, folder, *edges.indptr, "indptr.npy"));
  return WriteIntegerNpy(context, folder, *edges.indices, "indices.npy");
}

}  // namespace

absl::Status WriteNumpyFolder(ImportContext& context, SourceGraph& graph,
                              const std::string& destination) {
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "numpy"));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<LayoutFolder> folder,
                          LayoutFolder::Create(context.files(), destination));
  SourceNodes& nodes = graph.nodes[0];
  context.Begin("labels", 0);
  HEARTH_RETURN_IF_ERROR(
      WriteLabelNpy(context, *folder, *nodes.labels,
                    {"node_label.npy", DType::kInt64, {nodes.num_nodes}}));
  for (size_t i = 0; i < kSplitFiles.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(
        WriteIntegerNpy(context, *folder, *nodes.split[i], kSplitFiles[i]));
  }
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteEdges(context, graph.edges[0], *folder));
  context.Begin("features", 0);
  HEARTH_RETURN_IF_ERROR(
      WriteFeatureNpy(context, *folder, *nodes.features, "node_feat.npy"));
  return folder->Publish();
}

}  // namespace hearth::store
