#include "engine/ingest/formats/ogb.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/ogb_csv.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/parse/zip_archive.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

constexpr char kOgbDataFile[] = "data.npz";
constexpr char kLabelFile[] = "node-label.npz";
constexpr int64_t kBlockEdges = 64 << 10;

/// Arrays by their names in numpy's archives. Every opened array has a stream
/// of its own.
class ArrayArchive {
 public:
  static absl::StatusOr<ArrayArchive> Open(io::FileSystem& files,
                                           const std::string& path) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                            OpenSourceFile(files, path));
    ArrayArchive archive;
    archive.path_ = path;
    HEARTH_ASSIGN_OR_RETURN(archive.zip_, ZipArchive::Open(std::move(file)));
    return archive;
  }

  bool Has(absl::string_view name) const {
    return zip_->Find(absl::StrCat(name, ".npy")) != nullptr;
  }

  absl::StatusOr<std::unique_ptr<ArrayReader>> Array(
      absl::string_view name) const {
    if (!Has(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": has no array ", name));
    }
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                            zip_->OpenMember(absl::StrCat(name, ".npy")));
    return ArrayReader::ReadNpy(std::move(file));
  }

  const std::vector<ZipMember>& members() const { return zip_->members(); }

 private:
  std::string path_;
  std::unique_ptr<ZipArchive> zip_;
};

/// The only element of num_nodes_list.
absl::StatusOr<int64_t> ReadCount(const ArrayArchive& archive,
                                  absl::string_view name) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> array,
                          archive.Array(name));
  const store::ArrayHeader& header = array->header();
  if (header.type.IsFloat() || header.NumElements() != 1) {
    return array->Error(
        absl::StrCat("is ", Name(header.type), " of shape ",
                     store::FormatShape(header.shape),
                     "; a dataset of one graph has one number"));
  }
  int64_t count = 0;
  HEARTH_RETURN_IF_ERROR(array->ReadInts(0, absl::MakeSpan(&count, 1)));
  if (count > 0) return count;
  return array->ErrorAt(0, absl::StrCat("is ", count, "; 1 or more is needed"));
}

/// Reads edge_index from the first edge to the last, in C or Fortran order.
class EdgeIndex {
 public:
  static absl::StatusOr<EdgeIndex> Open(const ArrayArchive& archive,
                                        int64_t num_nodes) {
    EdgeIndex index;
    index.num_nodes_ = num_nodes;
    for (std::unique_ptr<ArrayReader>& row : index.rows_) {
      HEARTH_ASSIGN_OR_RETURN(row, archive.Array("edge_index"));
    }
    HEARTH_RETURN_IF_ERROR(CheckEdgeHeader(*index.rows_[0], EdgeShape::kRows));
    return index;
  }

  int64_t num_edges() const { return rows_[0]->header().shape[1]; }

  /// Reads the next edges, from `first` on.
  absl::Status Read(int64_t first, int64_t count,
                    std::array<std::vector<int64_t>, 2>& ends) {
    ends[0].resize(static_cast<size_t>(count));
    ends[1].resize(static_cast<size_t>(count));
    if (rows_[0]->header().fortran_order) {
      HEARTH_RETURN_IF_ERROR(ReadPairs(first, ends));
    } else {
      // Each row has a stream of its own, so that no stream goes back.
      HEARTH_RETURN_IF_ERROR(
          rows_[0]->ReadInts(first, absl::MakeSpan(ends[0])));
      HEARTH_RETURN_IF_ERROR(
          rows_[1]->ReadInts(num_edges() + first, absl::MakeSpan(ends[1])));
    }
    for (size_t end = 0; end < ends.size(); ++end) {
      HEARTH_RETURN_IF_ERROR(CheckRange(first, end, ends[end]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadPairs(int64_t first,
                         std::array<std::vector<int64_t>, 2>& ends) {
    std::vector<int64_t> pairs(2 * ends[0].size());
    HEARTH_RETURN_IF_ERROR(
        rows_[0]->ReadInts(2 * first, absl::MakeSpan(pairs)));
    for (size_t i = 0; i < pairs.size(); ++i) ends[i % 2][i / 2] = pairs[i];
    return absl::OkStatus();
  }

  absl::Status CheckRange(int64_t first, size_t end,
                          const std::vector<int64_t>& ids) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < num_nodes_) continue;
      return rows_[0]->Error(
          absl::StrCat("[", end, ", ", first + static_cast<int64_t>(i), "] is ",
                       ids[i], "; node ids are 0 .. ", num_nodes_ - 1));
    }
    return absl::OkStatus();
  }

  int64_t num_nodes_ = 0;
  std::array<std::unique_ptr<ArrayReader>, 2> rows_;
};

absl::StatusOr<std::unique_ptr<EdgeSource>> UnpackEdges(
    ImportContext& context, const ArrayArchive& data, int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(EdgeIndex index, EdgeIndex::Open(data, num_nodes));
  const int64_t num_edges = index.num_edges();
  const auto bytes =
      store::ArrayBytes({num_edges}, ScratchEdgeBytes({num_nodes, num_nodes}));
  if (!bytes.has_value()) return absl::InternalError("edges beyond 2^63 bytes");
  HEARTH_RETURN_IF_ERROR(context.CheckSpace(static_cast<uint64_t>(*bytes),
                                            "unpacking edge_index"));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  context.Begin("unpacking", static_cast<uint64_t>(*bytes));
  const auto edge_bytes =
      static_cast<uint64_t>(ScratchEdgeBytes({num_nodes, num_nodes}));
  std::array<std::vector<int64_t>, 2> ends;
  for (int64_t first = 0; first < num_edges; first += kBlockEdges) {
    const int64_t count = std::min(kBlockEdges, num_edges - first);
    HEARTH_RETURN_IF_ERROR(index.Read(first, count, ends));
    for (size_t i = 0; i < ends[0].size(); ++i) {
      HEARTH_RETURN_IF_ERROR(spool->Add(ends[0][i], ends[1][i]));
    }
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(count) * edge_bytes));
  }
  return spool->Finish();
}

/// Notes arrays of the archive that are not imported: years, features of edges.
void AddUnreadArrays(const ArrayArchive& data,
                     std::vector<std::string>& transforms) {
  for (const ZipMember& member : data.members()) {
    if (member.name == "edge_index.npy" || member.name == "node_feat.npy" ||
        member.name == "num_nodes_list.npy" ||
        member.name == "num_edges_list.npy") {
      continue;
    }
    transforms.push_back(
        absl::StrCat(kOgbDataFile, ": ", member.name, " not read"));
  }
}

/// Opens an OGB graph in arrays, such as papers100M's: in the folder `raw`,
/// data.npz with num_nodes_list, edge_index of shape (2, E) and perhaps
/// node_feat, and node-label.npz with node_label. Features and labels are read
/// from the archives during the import; edges are unpacked to the scratch
/// folder. Errors of OpenOgb.
absl::StatusOr<SourceGraph> OpenOgbBinary(ImportContext& context,
                                          const std::string& raw) {
  io::FileSystem& files = context.files();
  HEARTH_ASSIGN_OR_RETURN(
      const ArrayArchive data,
      ArrayArchive::Open(files, io::JoinPath(raw, kOgbDataFile)));
  HEARTH_ASSIGN_OR_RETURN(
      const ArrayArchive labels,
      ArrayArchive::Open(files, io::JoinPath(raw, kLabelFile)));
  SourceNodes nodes;
  HEARTH_ASSIGN_OR_RETURN(nodes.num_nodes, ReadCount(data, "num_nodes_list"));
  HEARTH_ASSIGN_OR_RETURN(nodes.labels, labels.Array("node_label"));
  if (data.Has("node_feat")) {
    HEARTH_ASSIGN_OR_RETURN(nodes.features, data.Array("node_feat"));
  }
  SourceEdges edges;
  HEARTH_ASSIGN_OR_RETURN(edges.edges,
                          UnpackEdges(context, data, nodes.num_nodes));
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_edges,
                          ReadCount(data, "num_edges_list"));
  if (num_edges != edges.num_edges()) {
    return absl::InvalidArgumentError(absl::StrCat(
        io::JoinPath(raw, kOgbDataFile), ": num_edges_list is ", num_edges,
        ", edge_index has ", edges.num_edges(), " edges"));
  }
  SourceGraph graph;
  graph.transforms.push_back("edge: no inverse edges added, as ogb does none");
  AddUnreadArrays(data, graph.transforms);
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  return graph;
}

/// Datasets to which OGB's list of datasets adds inverse edges.
constexpr std::array<absl::string_view, 2> kInverted = {"ogbn-products",
                                                        "ogbn-proteins"};
/// Files in raw/ that are read.
constexpr std::array<absl::string_view, 5> kReadFiles = {
    "edge", "node-feat", "node-label", "num-edge-list", "num-node-list"};

/// OGB's name of the dataset, such as "ogbn-products", for a folder that is
/// called ogbn_products or, as it is packed, products.
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

/// Notes files of the folder that are not imported: years, species, features of
/// edges.
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
  // An ambiguous split shows before the long work.
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

namespace {

constexpr char kMetaFile[] = "meta.pt";
constexpr char kSplitFile[] = "split_dict.pt";
constexpr char kFeaturesFile[] = "processed/paper/node_feat.npy";
constexpr char kLabelsFile[] = "processed/paper/node_label.npy";
constexpr char kPaper[] = "paper";
constexpr std::array<const char*, 3> kNodeTypes = {"author", "institution",
                                                   kPaper};

struct Relation {
  const char* source;
  const char* name;
  const char* destination;
};
constexpr std::array<Relation, 3> kRelations = {
    {{"author", "affiliated_with", "institution"},
     {"author", "writes", kPaper},
     {kPaper, "cites", kPaper}}};

/// All node types, with their numbers of nodes.
absl::StatusOr<SourceGraph> ReadCounts(io::FileSystem& files,
                                       const std::string& folder) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> meta,
      OpenTorchFile(files, io::JoinPath(folder, kMetaFile)));
  SourceGraph graph;
  for (const char* type : kNodeTypes) {
    SourceNodes nodes;
    nodes.type = type;
    HEARTH_ASSIGN_OR_RETURN(nodes.num_nodes, ReadTorchCount(*meta, type));
    graph.nodes.push_back(std::move(nodes));
  }
  return graph;
}

absl::Status OpenSplit(ImportContext& context, const std::string& folder,
                       SourceNodes& papers,
                       std::vector<std::string>& transforms) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> file,
      OpenTorchFile(context.files(), io::JoinPath(folder, kSplitFile)));
  const PickleValue& dict = file->root();
  const bool has_whole = dict.Find("test-whole") != nullptr;
  if (has_whole && dict.Find("test") != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->path(),
                     ": has \"test\" and \"test-whole\"; which of them is the "
                     "test part?"));
  }
  const std::array<const char*, 3> keys = {"train", "valid",
                                           has_whole ? "test-whole" : "test"};
  for (size_t i = 0; i < keys.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(papers.split[i],
                            OpenTorchArray(context, *file, dict, keys[i]));
  }
  if (has_whole) {
    transforms.push_back(
        absl::StrCat(kSplitFile, ": test-whole is the test part"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceEdges> OpenRelation(io::FileSystem& files,
                                         const std::string& folder,
                                         const Relation& relation,
                                         const SourceGraph& graph) {
  SourceEdges edges;
  edges.type = absl::StrCat(relation.source, ":", relation.name, ":",
                            relation.destination);
  edges.source_type = relation.source;
  edges.destination_type = relation.destination;
  const std::string path = io::JoinPath(
      folder, absl::StrCat("processed/", relation.source, "___", relation.name,
                           "___", relation.destination, "/edge_index.npy"));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> array,
                          ArrayReader::OpenNpy(files, path));
  HEARTH_ASSIGN_OR_RETURN(
      edges.edges, NewArrayEdgeSource(std::move(array), graph.EndsOf(edges),
                                      EdgeShape::kRows));
  return edges;
}

/// Warns of data that is not imported, such as the papers' years.
absl::Status WarnOfUnused(io::FileSystem& files, const std::string& folder,
                          SourceGraph& graph) {
  for (const char* type : kNodeTypes) {
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files, io::JoinPath(folder, absl::StrCat("processed/", type)),
        type == absl::string_view(kPaper)
            ? std::vector<std::string>{"node_feat.npy", "node_label.npy"}
            : std::vector<std::string>(),
        graph.warnings));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> RecognizeMag240m(io::FileSystem& files,
                                             const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const bool meta,
                          Exists(files, io::JoinPath(source, kMetaFile)));
  HEARTH_ASSIGN_OR_RETURN(const bool features,
                          Exists(files, io::JoinPath(source, kFeaturesFile)));
  return meta && features
             ? absl::StrCat("it has ", kMetaFile, " and ", kFeaturesFile)
             : "";
}

absl::StatusOr<SourceGraph> OpenMag240m(ImportContext& context,
                                        const std::string& source) {
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(files, source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, ReadCounts(files, source));
  SourceNodes& papers = graph.nodes.back();
  HEARTH_ASSIGN_OR_RETURN(
      papers.features,
      ArrayReader::OpenNpy(files, io::JoinPath(source, kFeaturesFile)));
  HEARTH_ASSIGN_OR_RETURN(
      papers.labels,
      ArrayReader::OpenNpy(files, io::JoinPath(source, kLabelsFile)));
  HEARTH_RETURN_IF_ERROR(OpenSplit(context, source, papers, graph.transforms));
  for (const Relation& relation : kRelations) {
    HEARTH_ASSIGN_OR_RETURN(SourceEdges edges,
                            OpenRelation(files, source, relation, graph));
    graph.edges.push_back(std::move(edges));
  }
  HEARTH_RETURN_IF_ERROR(WarnOfUnused(files, source, graph));
  return graph;
}

}  // namespace hearth::ingest
