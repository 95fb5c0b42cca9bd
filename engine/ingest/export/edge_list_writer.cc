#include "engine/ingest/export/edge_list_writer.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_edges.h"
#include "engine/ingest/export/source_parts.h"

namespace hearth::ingest {

absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           const std::string& destination) {
  NeededParts needed;
  needed.features = false;
  needed.labels = false;
  needed.split = false;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "edge-list", needed));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                          folder->NewSink("edges.txt"));
  const EdgeList edges(graph.edges[0]);
  context.Begin("edges", 0);
  HEARTH_RETURN_IF_ERROR(
      sink->AppendText(absl::StrCat("# Nodes: ", graph.nodes[0].num_nodes,
                                    " Edges: ", edges->num_edges(), "\n")));
  std::string lines;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeBlock(context, *edges, [&](const EdgeBlock& block) {
        lines.clear();
        for (size_t i = 0; i < block.size(); ++i) {
          absl::StrAppend(&lines, block.sources[i], "\t", block.destinations[i],
                          "\n");
        }
        return sink->AppendText(lines);
      }));
  HEARTH_RETURN_IF_ERROR(sink->Finish());
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
