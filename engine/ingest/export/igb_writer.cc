#include "engine/ingest/export/igb_writer.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/npy_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_edges.h"
#include "engine/ingest/export/source_parts.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kFewClasses = 19;
constexpr int64_t kManyClasses = 2983;

absl::Status WritePapers(ImportContext& context, SourceNodes& papers,
                         OutputFolder& folder) {
  context.Begin("labels", 0);
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_classes,
                          CountClasses(context, *papers.labels));
  if (num_classes > kManyClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", num_classes,
                     " classes; the format igb has up to ", kManyClasses));
  }
  HEARTH_RETURN_IF_ERROR(WriteLabelNpy(
      context, folder, *papers.labels,
      {num_classes > kFewClasses ? "processed/paper/node_label_2K.npy"
                                 : "processed/paper/node_label_19.npy",
       store::DType::kInt64,
       {papers.num_nodes}}));
  context.Begin("features", 0);
  return WriteNpy(folder,
                  {"processed/paper/node_feat.npy", store::DType::kFloat32,
                   papers.features->header().shape},
                  [&](ByteSink& sink) {
                    return WriteFeatures(context, *papers.features,
                                         store::DType::kFloat32, sink);
                  });
}

absl::Status WriteCitations(ImportContext& context, SourceEdges& citations,
                            OutputFolder& folder) {
  const EdgeList edges(citations);
  context.Begin("edges", 0);
  std::vector<int64_t> pairs;
  const auto write = [&](ByteSink& sink) {
    return ForEachEdgeBlock(context, *edges, [&](const EdgeBlock& block) {
      pairs.resize(2 * block.size());
      for (size_t i = 0; i < block.size(); ++i) {
        pairs[2 * i] = block.sources[i];
        pairs[2 * i + 1] = block.destinations[i];
      }
      return sink.AppendValues<int64_t>(pairs);
    });
  };
  return WriteNpy(folder,
                  {"processed/paper__cites__paper/edge_index.npy",
                   store::DType::kInt64,
                   {edges->num_edges(), 2}},
                  write);
}

}  // namespace

absl::Status WriteIgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination) {
  NeededParts needed;
  needed.split = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "igb", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_RETURN_IF_ERROR(WritePapers(context, graph.nodes[0], *folder));
  HEARTH_RETURN_IF_ERROR(WriteCitations(context, graph.edges[0], *folder));
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
