#include "engine/ingest/export/numpy_writer.h"

#include <array>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/byte_sink.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/label_output.h"
#include "engine/ingest/export/npy_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_parts.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/dtype.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {
namespace {

constexpr std::array<const char*, 3> kSplitFiles = {
    "train_idx.npy", "valid_idx.npy", "test_idx.npy"};

absl::Status WriteLabels(ImportContext& context, SourceNodes& nodes,
                         OutputFolder& folder) {
  const char* path = "node_label.npy";
  ArrayReader& labels = *nodes.labels;
  const store::LabelKind kind = KindOfLabels(labels.header(), nodes.label_kind);
  if (kind == store::LabelKind::kClasses) {
    return WriteLabelNpy(context, folder, labels,
                         {path, store::DType::kInt64, {nodes.num_nodes}});
  }
  const int64_t width = labels.header().NumElements() / nodes.num_nodes;
  const NpyFile file{path, store::DType::kFloat32, {nodes.num_nodes, width}};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return ForEachLabelRowBlock(context, labels, kind,
                                [&](absl::Span<const float> rows) {
                                  return sink.AppendValues<float>(rows);
                                });
  });
}

absl::Status WriteEdges(ImportContext& context, SourceEdges& edges,
                        OutputFolder& folder) {
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
  NeededParts needed;
  needed.any_label_kind = true;
  needed.whole_split = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "numpy", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  SourceNodes& nodes = graph.nodes[0];
  context.Begin("labels", 0);
  HEARTH_RETURN_IF_ERROR(WriteLabels(context, nodes, *folder));
  for (size_t i = 0; i < kSplitFiles.size(); ++i) {
    if (nodes.split[i] == nullptr) continue;
    HEARTH_RETURN_IF_ERROR(
        WriteIntegerNpy(context, *folder, *nodes.split[i], kSplitFiles[i]));
  }
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(WriteEdges(context, graph.edges[0], *folder));
  context.Begin("features", 0);
  HEARTH_RETURN_IF_ERROR(
      WriteFeatureNpy(context, *folder, *nodes.features, "node_feat.npy"));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
