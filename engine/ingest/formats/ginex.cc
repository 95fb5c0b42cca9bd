#include "engine/ingest/formats/ginex.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/array_conf.h"
#include "engine/ingest/formats/raw_array.h"
#include "engine/ingest/formats/source_folder.h"
#include "engine/ingest/formats/torch_split.h"

namespace hearth::ingest {
namespace {

constexpr char kIndptrFile[] = "indptr.dat";
constexpr char kIndicesFile[] = "indices.dat";

/// The text between "conf" and ".json": "" or "-DIM".
absl::StatusOr<std::string> FindSuffix(io::FileSystem& files,
                                       const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files.List(source));
  std::vector<std::string> suffixes;
  for (const std::string& name : names) {
    absl::string_view suffix = name;
    if (!absl::ConsumePrefix(&suffix, "conf") ||
        !absl::ConsumeSuffix(&suffix, ".json")) {
      continue;
    }
    // Ginex's own, beside which GNNDrive puts others of the same data.
    if (suffix.empty()) return "";
    absl::string_view digits = suffix;
    if (absl::ConsumePrefix(&digits, "-") && !digits.empty() &&
        std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) {
      suffixes.emplace_back(suffix);
    }
  }
  if (suffixes.size() == 1) return suffixes[0];
  if (suffixes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has neither conf.json nor a conf-DIM.json"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": has ",
      absl::StrJoin(
          suffixes, " and ",
          [](auto* out, auto& s) { absl::StrAppend(out, "conf", s, ".json"); }),
      "; which of them is meant? Keep one"));
}

/// Opens the arrays that a conf.json describes.
class ArrayFolder {
 public:
  ArrayFolder(io::FileSystem& files, const std::string& folder,
              const ArrayConf& conf)
      : files_(files), folder_(folder), conf_(conf) {}

  absl::StatusOr<std::unique_ptr<ArrayReader>> Open(
      const std::string& file, const std::string& name) const {
    HEARTH_ASSIGN_OR_RETURN(store::ArrayHeader header, conf_.Header(name));
    return OpenRawArray(files_, io::JoinPath(folder_, file), std::move(header));
  }

 private:
  io::FileSystem& files_;
  const std::string& folder_;
  const ArrayConf& conf_;
};

}  // namespace

absl::StatusOr<std::string> RecognizeGinex(io::FileSystem& files,
                                           const std::string& source) {
  for (const char* const name : {kIndptrFile, kIndicesFile}) {
    HEARTH_ASSIGN_OR_RETURN(const bool found,
                            Exists(files, io::JoinPath(source, name)));
    if (!found) return "";
  }
  return absl::StrCat("it has ", kIndptrFile, " and ", kIndicesFile);
}

absl::StatusOr<SourceGraph> OpenGinex(ImportContext& context,
                                      const std::string& source) {
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, source));
  HEARTH_ASSIGN_OR_RETURN(const std::string suffix, FindSuffix(files, source));
  HEARTH_ASSIGN_OR_RETURN(
      const ArrayConf conf,
      ArrayConf::Read(
          files, io::JoinPath(source, absl::StrCat("conf", suffix, ".json"))));
  const ArrayFolder arrays(files, source, conf);
  SourceGraph graph;
  SourceNodes nodes;
  nodes.num_nodes = conf.num_nodes();
  HEARTH_ASSIGN_OR_RETURN(
      nodes.features,
      arrays.Open(absl::StrCat("features", suffix, ".dat"), "features"));
  HEARTH_ASSIGN_OR_RETURN(nodes.labels, arrays.Open("labels.dat", "labels"));
  SourceEdges edges;
  HEARTH_ASSIGN_OR_RETURN(edges.indptr, arrays.Open(kIndptrFile, "indptr"));
  HEARTH_ASSIGN_OR_RETURN(edges.indices, arrays.Open(kIndicesFile, "indices"));
  // nc_score.pth is a cache's: made of the rest.
  HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
      files, source,
      {absl::StrCat("features", suffix, ".dat"), "labels.dat", kIndptrFile,
       kIndicesFile, "split_idx.pth", "nc_score.pth"},
      graph.warnings));
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  HEARTH_RETURN_IF_ERROR(OpenTorchSplit(files, source, graph));
  return graph;
}

}  // namespace hearth::ingest
