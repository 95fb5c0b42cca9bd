#include "engine/ingest/formats/diskgnn.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/array_conf.h"
#include "engine/ingest/formats/fused_csc.h"
#include "engine/ingest/formats/fused_csc_edges.h"
#include "engine/ingest/formats/raw_array.h"
#include "engine/ingest/formats/source_folder.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/formats/torch_split.h"
#include "engine/ingest/formats/torch_value.h"
#include "engine/ingest/parse/torch_file.h"

namespace hearth::ingest {
namespace {

constexpr char kConfFile[] = "conf.json";
constexpr char kFeaturesFile[] = "features.bin";
constexpr char kGraphFile[] = "graph.pth";
constexpr char kLabelsFile[] = "labels.pth";

absl::StatusOr<SourceNodes> OpenNodes(io::FileSystem& files,
                                      const std::string& source,
                                      const ArrayConf& conf) {
  SourceNodes nodes;
  nodes.num_nodes = conf.num_nodes();
  HEARTH_ASSIGN_OR_RETURN(store::ArrayHeader header,
                          conf.Header("features", "torch."));
  HEARTH_ASSIGN_OR_RETURN(
      nodes.features, OpenRawArray(files, io::JoinPath(source, kFeaturesFile),
                                   std::move(header)));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> labels,
      OpenTorchFile(files, io::JoinPath(source, kLabelsFile)));
  HEARTH_ASSIGN_OR_RETURN(nodes.labels,
                          OpenTorchValue(*labels, &labels->root()));
  return nodes;
}

}  // namespace

absl::StatusOr<std::string> RecognizeDiskGnn(io::FileSystem& files,
                                             const std::string& source) {
  for (const char* const name : {kFeaturesFile, kConfFile}) {
    HEARTH_ASSIGN_OR_RETURN(const bool found,
                            Exists(files, io::JoinPath(source, name)));
    if (!found) return "";
  }
  return absl::StrCat("it has ", kFeaturesFile, " and ", kConfFile);
}

absl::StatusOr<SourceGraph> OpenDiskGnn(ImportContext& context,
                                        const std::string& source) {
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, source));
  const std::string graph_path = io::JoinPath(source, kGraphFile);
  HEARTH_ASSIGN_OR_RETURN(const bool has_graph, Exists(files, graph_path));
  if (!has_graph) {
    return absl::InvalidArgumentError(absl::StrCat(
        graph_path, ": is missing; of a graph of several types DiskGNN writes ",
        "none: import the GraphBolt dataset that it was made of"));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const ArrayConf conf,
      ArrayConf::Read(files, io::JoinPath(source, kConfFile)));
  HEARTH_ASSIGN_OR_RETURN(FusedCsc csc, OpenFusedCsc(files, graph_path));
  if (csc.is_heterogeneous()) {
    return absl::InvalidArgumentError(
        absl::StrCat(graph_path, ": has several types; the other files of ",
                     "this format are for one"));
  }
  SourceGraph graph;
  HEARTH_ASSIGN_OR_RETURN(SourceNodes nodes, OpenNodes(files, source, conf));
  graph.nodes.push_back(std::move(nodes));
  HEARTH_ASSIGN_OR_RETURN(graph.edges, EdgesOf(context, std::move(csc)));
  HEARTH_RETURN_IF_ERROR(OpenTorchSplit(files, source, graph));
  HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
      files, source, {kFeaturesFile, kGraphFile, kLabelsFile, "split_idx.pth"},
      graph.warnings));
  return graph;
}

}  // namespace hearth::ingest
