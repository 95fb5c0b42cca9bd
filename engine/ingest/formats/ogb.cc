#include "engine/ingest/formats/ogb.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/ogb_binary.h"
#include "engine/ingest/formats/ogb_files.h"
#include "engine/ingest/formats/ogb_heterogeneous.h"
#include "engine/ingest/formats/source_folder.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/import/edge_adaptors.h"

namespace hearth::ingest {
namespace {

/// Those that OGB's list of datasets adds inverse edges to.
constexpr std::array<absl::string_view, 2> kInverted = {"ogbn-products",
                                                        "ogbn-proteins"};
/// Files in raw/ that are read.
constexpr std::array<absl::string_view, 5> kReadFiles = {
    "edge", "node-feat", "node-label", "num-edge-list", "num-node-list"};

/// "ogbn-products", as OGB names it; the folder may be called otherwise:
/// ogbn_products or, as it is packed, products.
std::string DatasetName(absl::string_view path) {
  const std::string name = absl::StrReplaceAll(
      path.substr(path.find_last_of('/') + 1), {{"_", "-"}});
  return absl::StartsWith(name, "ogbn-") ? name : absl::StrCat("ogbn-", name);
}

absl::StatusOr<SourceNodes> OpenNodes(ImportContext& context,
                                      const std::string& raw) {
  io::FileSystem& files = context.files();
  SourceNodes nodes;
  HEARTH_ASSIGN_OR_RETURN(const std::string count,
                          FindCsv(files, raw, "num-node-list"));
  HEARTH_ASSIGN_OR_RETURN(nodes.num_nodes, ReadTextCount(context, count));
  HEARTH_ASSIGN_OR_RETURN(const std::string labels,
                          FindCsv(files, raw, "node-label"));
  HEARTH_ASSIGN_OR_RETURN(nodes.labels,
                          ReadTextLabels(context, labels, nodes.num_nodes));
  HEARTH_ASSIGN_OR_RETURN(const std::string features,
                          FindCsv(files, raw, "node-feat"));
  HEARTH_ASSIGN_OR_RETURN(const bool has_features, Exists(files, features));
  if (has_features) {
    HEARTH_ASSIGN_OR_RETURN(nodes.features,
                            ReadTextFloats(context, features, nodes.num_nodes));
  }
  return nodes;
}

absl::StatusOr<SourceEdges> OpenEdges(ImportContext& context,
                                      const std::string& raw,
                                      int64_t num_nodes) {
  io::FileSystem& files = context.files();
  HEARTH_ASSIGN_OR_RETURN(const std::string count,
                          FindCsv(files, raw, "num-edge-list"));
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_edges,
                          ReadTextCount(context, count));
  HEARTH_ASSIGN_OR_RETURN(const std::string list, FindCsv(files, raw, "edge"));
  SourceEdges edges;
  HEARTH_ASSIGN_OR_RETURN(
      edges.edges,
      ReadTextEdges(context, list, {num_nodes, num_nodes}, num_edges));
  return edges;
}

/// Notes the files of the folder that are not imported: years, species,
/// features of edges.
absl::Status AddUnreadFiles(io::FileSystem& files, const std::string& raw,
                            std::vector<std::string>& transforms) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> entries,
                          files.List(raw));
  for (const std::string& file : entries) {
    const absl::string_view name =
        absl::StripSuffix(absl::StripSuffix(file, ".gz"), ".csv");
    if (std::find(kReadFiles.begin(), kReadFiles.end(), name) ==
        kReadFiles.end()) {
      transforms.push_back(absl::StrCat("raw/", file, ": not read"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceGraph> OpenHomogeneous(ImportContext& context,
                                            const std::string& source) {
  const std::string raw = io::JoinPath(source, "raw");
  SourceGraph graph;
  HEARTH_ASSIGN_OR_RETURN(SourceNodes nodes, OpenNodes(context, raw));
  HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                          OpenEdges(context, raw, nodes.num_nodes));
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          context.files().RealPath(source));
  if (OgbAddsInverseEdges(path)) {
    edges.edges = NewEdgesWithReverse(std::move(edges.edges));
    graph.transforms.push_back(
        absl::StrCat("edge: the inverse of each edge added, as ogb does for ",
                     DatasetName(path)));
  } else {
    graph.transforms.push_back(
        absl::StrCat("edge: no inverse edges added, which ogb does for ",
                     kInverted[0], " and ", kInverted[1], " alone"));
  }
  HEARTH_RETURN_IF_ERROR(
      AddUnreadFiles(context.files(), raw, graph.transforms));
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  return graph;
}

absl::StatusOr<bool> HasCsv(io::FileSystem& files, const std::string& folder,
                            const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(const std::string path, FindCsv(files, folder, name));
  return Exists(files, path);
}

}  // namespace

absl::StatusOr<std::string> RecognizeOgb(io::FileSystem& files,
                                         const std::string& source) {
  const std::string raw = io::JoinPath(source, "raw");
  HEARTH_ASSIGN_OR_RETURN(const bool split,
                          Exists(files, io::JoinPath(source, "split")));
  if (!split) return "";
  HEARTH_ASSIGN_OR_RETURN(const bool binary,
                          Exists(files, io::JoinPath(raw, kOgbDataFile)));
  if (binary) return absl::StrCat("it has split and raw/", kOgbDataFile);
  for (const char* name : {"num-node-list", "num-node-dict"}) {
    HEARTH_ASSIGN_OR_RETURN(const bool found, HasCsv(files, raw, name));
    if (found) return absl::StrCat("it has split and raw/", name, ".csv");
  }
  return "";
}

absl::StatusOr<SourceGraph> OpenOgb(ImportContext& context,
                                    const std::string& source,
                                    const OgbOptions& options) {
  io::FileSystem& files = context.files();
  const std::string raw = io::JoinPath(source, "raw");
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, source));
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, raw));
  // A split that is not clear shows before the long work.
  HEARTH_ASSIGN_OR_RETURN(const std::string split,
                          FindSplitFolder(files, source, options));
  HEARTH_ASSIGN_OR_RETURN(const bool typed,
                          HasCsv(files, raw, "num-node-dict"));
  if (typed) {
    HEARTH_ASSIGN_OR_RETURN(SourceGraph graph,
                            OpenOgbHeterogeneous(context, raw));
    HEARTH_RETURN_IF_ERROR(OpenTypedSplit(context, split, graph));
    return graph;
  }
  HEARTH_ASSIGN_OR_RETURN(const bool binary,
                          Exists(files, io::JoinPath(raw, kOgbDataFile)));
  HEARTH_ASSIGN_OR_RETURN(
      SourceGraph graph,
      binary ? OpenOgbBinary(context, raw) : OpenHomogeneous(context, source));
  HEARTH_RETURN_IF_ERROR(OpenSplit(context, split, graph.nodes[0]));
  return graph;
}

bool OgbAddsInverseEdges(absl::string_view path) {
  return std::find(kInverted.begin(), kInverted.end(), DatasetName(path)) !=
         kInverted.end();
}

}  // namespace hearth::ingest
