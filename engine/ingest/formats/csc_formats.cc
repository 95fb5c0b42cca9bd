#include "engine/ingest/formats/csc_formats.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/fused_csc.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {

namespace {

constexpr uint64_t kMaxBytes = 64 << 10;

absl::Status Invalid(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

}  // namespace

ArrayConf::ArrayConf(std::string path, nlohmann::json fields)
    : path_(std::move(path)),
      fields_(std::make_shared<const nlohmann::json>(std::move(fields))) {}

absl::StatusOr<ArrayConf> ArrayConf::Read(io::FileSystem& files,
                                          const std::string& path) {
  const absl::StatusOr<std::string> text =
      io::ReadWholeFile(files, path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return Invalid(path, "is missing");
  HEARTH_RETURN_IF_ERROR(text.status());
  absl::StatusOr<nlohmann::json> parsed = store::ParseStrictJson(*text);
  if (!parsed.ok()) return Invalid(path, parsed.status().message());
  ArrayConf conf(path, *std::move(parsed));
  HEARTH_ASSIGN_OR_RETURN(conf.num_nodes_, conf.Number("num_nodes"));
  return conf;
}

absl::StatusOr<store::ArrayHeader> ArrayConf::Header(
    const std::string& name, absl::string_view prefix) const {
  store::JsonFields fields(*fields_, path_);
  store::ArrayHeader header;
  header.shape = fields.NonNegativeInts(absl::StrCat(name, "_shape").c_str());
  const std::string key = absl::StrCat(name, "_dtype");
  const std::string type = fields.String(key.c_str());
  HEARTH_RETURN_IF_ERROR(fields.status());
  absl::StatusOr<store::ElementType> element =
      ParseElementType(absl::StripPrefix(type, prefix));
  if (!element.ok()) {
    return Invalid(path_, absl::StrCat(key, ": ", element.status().message()));
  }
  header.type = *element;
  return header;
}

absl::StatusOr<int64_t> ArrayConf::Number(const char* name) const {
  store::JsonFields fields(*fields_, path_);
  const int64_t number = fields.Int(name, 0, INT64_MAX);
  HEARTH_RETURN_IF_ERROR(fields.status());
  return number;
}

namespace {

constexpr char kIndptrFile[] = "indptr.dat";
constexpr char kIndicesFile[] = "indices.dat";

/// The text between "conf" and ".json" in a file's name: "" or "-DIM".
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
    // Ginex's own file comes first; GNNDrive may have put others beside it.
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
  // nc_score.pth is derived from the other files, for a cache.
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
