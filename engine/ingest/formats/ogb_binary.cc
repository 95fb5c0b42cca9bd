#include "engine/ingest/formats/ogb_binary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/edge_spool.h"
#include "engine/ingest/parse/zip_archive.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/io/file_system.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr char kLabelFile[] = "node-label.npz";
constexpr int64_t kBlockEdges = 64 << 10;

/// Arrays by their names in numpy's archives. Each opening reads on its own.
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

/// Reads edge_index from end to end, whichever way its two rows lie.
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

  /// The next edges, from `first` on.
  absl::Status Read(int64_t first, int64_t count,
                    std::array<std::vector<int64_t>, 2>& ends) {
    ends[0].resize(static_cast<size_t>(count));
    ends[1].resize(static_cast<size_t>(count));
    if (rows_[0]->header().fortran_order) {
      HEARTH_RETURN_IF_ERROR(ReadPairs(first, ends));
    } else {
      // Each row has a stream of its own, so that neither goes back.
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

/// Notes the arrays of the archive that are not imported: years, features of
/// edges.
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

}  // namespace

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

}  // namespace hearth::ingest
