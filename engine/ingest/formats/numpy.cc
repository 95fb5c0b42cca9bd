#include "engine/ingest/formats/numpy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {
namespace {

constexpr char kFeaturesFile[] = "node_feat.npy";
constexpr char kLabelsFile[] = "node_label.npy";
constexpr char kEdgesFile[] = "edge_index.npy";
constexpr char kIndptrFile[] = "indptr.npy";
constexpr char kIndicesFile[] = "indices.npy";

/// A part of the split; its file is called STEM_idx.npy or STEM_mask.npy.
struct PartNames {
  absl::string_view part;
  std::array<absl::string_view, 2> stems;
};
constexpr std::array<PartNames, 3> kParts = {{{"training", {"train"}},
                                              {"validation", {"valid", "val"}},
                                              {"test", {"test"}}}};
constexpr absl::string_view kIdsSuffix = "_idx.npy";
constexpr absl::string_view kMaskSuffix = "_mask.npy";

// Elements of an array that are read to tell which file has too few rows.
constexpr int64_t kMaxProbedIds = 1 << 20;

/// The folder, and the names in it.
struct NumpyFolder {
  io::FileSystem& files;
  const std::string& path;
  std::vector<std::string> names;

  bool Has(absl::string_view name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  absl::StatusOr<std::unique_ptr<ArrayReader>> Open(
      const std::string& name) const {
    return ArrayReader::OpenNpy(files, io::JoinPath(path, name));
  }
};

/// The file of a part of the split; empty if there is none.
absl::StatusOr<std::string> FindPart(const NumpyFolder& folder,
                                     const PartNames& names) {
  std::vector<std::string> found;
  for (const absl::string_view stem : names.stems) {
    if (stem.empty()) continue;
    for (const absl::string_view suffix : {kIdsSuffix, kMaskSuffix}) {
      std::string name = absl::StrCat(stem, suffix);
      if (folder.Has(name)) found.push_back(std::move(name));
    }
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path, ": has ", absl::StrJoin(found, " and "),
                     "; which of them is the ", names.part, " part? Keep one"));
  }
  return found.empty() ? "" : found[0];
}

absl::StatusOr<SourceNodes> OpenNodes(const NumpyFolder& folder) {
  SourceNodes nodes;
  HEARTH_ASSIGN_OR_RETURN(nodes.features, folder.Open(kFeaturesFile));
  HEARTH_RETURN_IF_ERROR(CheckFeatureShape(*nodes.features));
  nodes.num_nodes = nodes.features->header().shape[0];
  HEARTH_ASSIGN_OR_RETURN(nodes.labels, folder.Open(kLabelsFile));
  for (size_t i = 0; i < nodes.split.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(std::string name, FindPart(folder, kParts[i]));
    if (name.empty() && i > 0) continue;
    if (name.empty()) name = absl::StrCat(kParts[i].stems[0], kIdsSuffix);
    HEARTH_ASSIGN_OR_RETURN(nodes.split[i], folder.Open(name));
    nodes.split_is_mask[i] = absl::EndsWith(name, kMaskSuffix);
  }
  return nodes;
}

/// The largest among the first integers of an array; -1 if it has none.
absl::StatusOr<int64_t> LargestId(ArrayReader& ids) {
  if (ids.header().type.IsFloat()) return -1;
  std::vector<int64_t> block(
      static_cast<size_t>(std::min(ids.header().NumElements(), kMaxProbedIds)));
  HEARTH_RETURN_IF_ERROR(ids.ReadInts(0, absl::MakeSpan(block)));
  const auto largest = std::max_element(block.begin(), block.end());
  return largest == block.end() ? -1 : *largest;
}

/// The highest node that any array of the folder names or has an element for;
/// -1 if no array does.
absl::StatusOr<int64_t> HighestNode(const NumpyFolder& folder,
                                    const std::string& name) {
  if (!folder.Has(name)) return -1;
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> array,
                          folder.Open(name));
  if (array->header().shape.empty()) return -1;
  const int64_t rows = array->header().shape[0];
  if (name == kIndptrFile) return rows - 2;
  if (absl::EndsWith(name, kMaskSuffix)) return rows - 1;
  return LargestId(*array);
}

/// INVALID_ARGUMENT if features and labels differ in their number of rows.
/// Names the array that has fewer, and another array that has as many as the
/// longer one.
absl::Status CheckRows(const NumpyFolder& folder, const SourceNodes& nodes) {
  const ArrayReader* fewer = nodes.features.get();
  const ArrayReader* more = nodes.labels.get();
  if (more->header().shape.empty()) return absl::OkStatus();
  const auto rows = [](const ArrayReader* array) {
    return array->header().shape[0];
  };
  if (rows(fewer) == rows(more)) return absl::OkStatus();
  if (rows(fewer) > rows(more)) std::swap(fewer, more);
  std::vector<std::string> names = {kEdgesFile, kIndptrFile, kIndicesFile};
  for (const auto& part : nodes.split) {
    if (part != nullptr) names.push_back(part->name());
  }
  std::vector<std::string> witnesses;
  for (const std::string& name : names) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t node, HighestNode(folder, name));
    if (node >= rows(fewer) && node < rows(more)) {
      witnesses.push_back(absl::StrCat(", ", name, " has node ", node));
    }
  }
  const std::string other =
      absl::StrCat(more->name(), " has ", rows(more), " rows");
  if (witnesses.empty()) {
    return fewer->Error(absl::StrCat("has ", rows(fewer), " rows, ", other,
                                     "; both need one for each node"));
  }
  return fewer->Error(absl::StrCat("has ", rows(fewer), " rows, all else ",
                                   rows(more), " nodes: ", other,
                                   absl::StrJoin(witnesses, "")));
}

absl::StatusOr<SourceEdges> OpenEdges(const NumpyFolder& folder,
                                      int64_t num_nodes) {
  const bool csc = folder.Has(kIndptrFile) || folder.Has(kIndicesFile);
  if (csc && folder.Has(kEdgesFile)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path,
                     ": has edge_index.npy and indptr.npy or "
                     "indices.npy; which of them holds the edges?"));
  }
  SourceEdges edges;
  if (csc) {
    HEARTH_ASSIGN_OR_RETURN(edges.indptr, folder.Open(kIndptrFile));
    HEARTH_ASSIGN_OR_RETURN(edges.indices, folder.Open(kIndicesFile));
    return edges;
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> array,
                          folder.Open(kEdgesFile));
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
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, source));
  NumpyFolder folder{files, source, {}};
  HEARTH_ASSIGN_OR_RETURN(folder.names, files.List(source));
  SourceGraph graph;
  HEARTH_ASSIGN_OR_RETURN(SourceNodes nodes, OpenNodes(folder));
  HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                          OpenEdges(folder, nodes.num_nodes));
  HEARTH_RETURN_IF_ERROR(CheckRows(folder, nodes));
  std::vector<std::string> used = {kFeaturesFile, kLabelsFile, kEdgesFile,
                                   kIndptrFile, kIndicesFile};
  for (const auto& part : nodes.split) {
    if (part != nullptr) used.push_back(part->name());
  }
  HEARTH_RETURN_IF_ERROR(
      WarnOfUnusedFiles(files, source, used, graph.warnings));
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  return graph;
}

}  // namespace hearth::ingest
