#include "engine/ingest/formats/igb.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/edge_type.h"
#include "engine/ingest/formats/igb_labels.h"
#include "engine/ingest/formats/raw_array.h"
#include "engine/ingest/formats/source_folder.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {
namespace {

constexpr char kProcessed[] = "processed";
constexpr char kPaper[] = "paper";
constexpr char kFeaturesFile[] = "node_feat.npy";
constexpr char kEdgesFile[] = "edge_index.npy";
constexpr char kSeparator[] = "__";
constexpr int64_t kColumns = 1024;

/// The folder of papers' features within `source`, or nothing.
absl::StatusOr<std::string> FindProcessed(io::FileSystem& files,
                                          const std::string& source) {
  for (const std::string& folder : {io::JoinPath(source, kProcessed), source}) {
    HEARTH_ASSIGN_OR_RETURN(
        const bool found,
        Exists(files,
               io::JoinPath(io::JoinPath(folder, kPaper), kFeaturesFile)));
    if (found) return folder;
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenFeatures(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const bool is_npy, HasNpyHeader(files, path));
  if (is_npy) return ArrayReader::OpenNpy(files, path);
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, files.Stat(path));
  constexpr uint64_t kRowBytes = kColumns * sizeof(float);
  if (info.size_bytes % kRowBytes != 0) {
    return absl::DataLossError(
        absl::StrCat(path, ": has no .npy header and ", info.size_bytes,
                     " bytes, which is no multiple of ", kRowBytes,
                     ", a row of ", kColumns, " float32"));
  }
  return ArrayReader::OpenRaw(
      files, path,
      {.type = {},
       .shape = {static_cast<int64_t>(info.size_bytes / kRowBytes), kColumns}});
}

/// Opens what is in one folder after another.
class IgbFolder {
 public:
  IgbFolder(io::FileSystem& files, std::string folder,
            const IgbOptions& options)
      : files_(files), folder_(std::move(folder)), options_(options) {}

  absl::StatusOr<SourceGraph> Open() {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            files_.List(folder_));
    for (const std::string& name : names) {
      if (absl::StrContains(name, kSeparator)) continue;
      HEARTH_RETURN_IF_ERROR(AddNodes(name));
    }
    for (const std::string& name : names) {
      std::optional<SourceEdges> edges = EdgesOfType(name, kSeparator);
      if (!edges.has_value()) continue;
      HEARTH_RETURN_IF_ERROR(AddEdges(name, *std::move(edges)));
    }
    if (graph_.nodes.size() == 1 && graph_.edges.size() == 1) {
      graph_.nodes[0].type = SourceNodes().type;
      graph_.edges[0].type = SourceEdges().type;
      graph_.edges[0].source_type = graph_.nodes[0].type;
      graph_.edges[0].destination_type = graph_.nodes[0].type;
    }
    return std::move(graph_);
  }

 private:
  absl::Status AddNodes(const std::string& type) {
    const std::string folder = io::JoinPath(folder_, type);
    const std::string path = io::JoinPath(folder, kFeaturesFile);
    HEARTH_ASSIGN_OR_RETURN(const bool found, Exists(files_, path));
    if (!found) return absl::OkStatus();
    SourceNodes nodes;
    nodes.type = type;
    HEARTH_ASSIGN_OR_RETURN(nodes.features, OpenFeatures(files_, path));
    const std::vector<int64_t>& shape = nodes.features->header().shape;
    if (!shape.empty() && shape[0] == 0) {
      // A type without nodes has no features either.
      nodes.features = nullptr;
      graph_.nodes.push_back(std::move(nodes));
      return absl::OkStatus();
    }
    HEARTH_RETURN_IF_ERROR(CheckFeatureShape(*nodes.features));
    nodes.num_nodes = shape[0];
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files_, folder,
        {kFeaturesFile, "node_label_19.npy", "node_label_2K.npy",
         absl::StrCat(type, "_id_index_mapping.npy")},
        graph_.warnings));
    if (type == kPaper) {
      HEARTH_RETURN_IF_ERROR(
          OpenIgbLabels(files_, folder, options_, graph_, nodes));
    }
    graph_.nodes.push_back(std::move(nodes));
    return absl::OkStatus();
  }

  absl::Status AddEdges(const std::string& name, SourceEdges edges) {
    EdgeEnds ends;
    for (const auto& [type, count] :
         {std::pair(&edges.source_type, &ends.num_sources),
          std::pair(&edges.destination_type, &ends.num_destinations)}) {
      const SourceNodes* const nodes = graph_.FindNodes(*type);
      if (nodes == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(folder_, ": has edges ",
                                                       name, ", but no ", *type,
                                                       "/", kFeaturesFile));
      }
      *count = nodes->num_nodes;
    }
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<ArrayReader> array,
        ArrayReader::OpenNpy(
            files_, io::JoinPath(io::JoinPath(folder_, name), kEdgesFile)));
    HEARTH_ASSIGN_OR_RETURN(
        edges.edges,
        NewArrayEdgeSource(std::move(array), ends, EdgeShape::kPairs));
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files_, io::JoinPath(folder_, name), {kEdgesFile}, graph_.warnings));
    graph_.edges.push_back(std::move(edges));
    return absl::OkStatus();
  }

  io::FileSystem& files_;
  const std::string folder_;
  const IgbOptions& options_;
  SourceGraph graph_;
};

}  // namespace

absl::StatusOr<std::string> RecognizeIgb(io::FileSystem& files,
                                         const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                          FindProcessed(files, source));
  if (folder.empty()) return "";
  HEARTH_ASSIGN_OR_RETURN(
      const bool found,
      Exists(files, io::JoinPath(folder, "paper__cites__paper")));
  return found ? "it has paper/node_feat.npy and paper__cites__paper" : "";
}

absl::StatusOr<SourceGraph> OpenIgb(ImportContext& context,
                                    const std::string& source,
                                    const IgbOptions& options) {
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(std::string folder,
                          FindProcessed(context.files(), source));
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has neither processed/paper/node_feat.npy nor ",
                     "paper/node_feat.npy"));
  }
  return IgbFolder(context.files(), std::move(folder), options).Open();
}

}  // namespace hearth::ingest
