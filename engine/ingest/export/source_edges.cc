#include "engine/ingest/export/source_edges.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_builder.h"
#include "engine/io/atomic_file.h"
#include "engine/store/array_writer.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockOffsets = 64 << 10;

class CscEdges : public EdgeSource {
 public:
  CscEdges(ArrayReader& indptr, ArrayReader& indices)
      : indptr_(indptr),
        indices_(indices),
        num_nodes_(indptr.header().shape[0] - 1) {}

  int64_t num_edges() const override { return indices_.header().shape[0]; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    if (first != next_edge_) {
      node_ = -1;
      end_ = 0;
      next_edge_ = 0;
      num_offsets_ = 0;
      first_offset_ = 0;
    }
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(
        indices_.ReadInts(first, absl::MakeSpan(block.sources)));
    for (size_t i = 0; i < block.size(); ++i) {
      next_edge_ = first + static_cast<int64_t>(i);
      while (end_ <= next_edge_) HEARTH_RETURN_IF_ERROR(NextNode());
      block.destinations[i] = node_;
    }
    next_edge_ = first + count;
    return absl::OkStatus();
  }

 private:
  /// Takes the next node, whose last edge is before the new end_.
  absl::Status NextNode() {
    if (++node_ >= num_nodes_) {
      return indptr_.Error(absl::StrCat("ends with ", end_, ", but ",
                                        indices_.path(), " has ", num_edges(),
                                        " elements"));
    }
    const int64_t position = node_ + 1;
    if (position >= first_offset_ + num_offsets_) {
      first_offset_ = position;
      num_offsets_ = std::min(kBlockOffsets, num_nodes_ + 1 - position);
      offsets_.resize(static_cast<size_t>(num_offsets_));
      HEARTH_RETURN_IF_ERROR(
          indptr_.ReadInts(position, absl::MakeSpan(offsets_)));
    }
    const int64_t end = offsets_[static_cast<size_t>(position - first_offset_)];
    if (end < end_) {
      return indptr_.ErrorAt(position, absl::StrCat("is ", end, ", less than ",
                                                    end_, " before it"));
    }
    end_ = end;
    return absl::OkStatus();
  }

  ArrayReader& indptr_;
  ArrayReader& indices_;
  const int64_t num_nodes_;
  /// The edge behind those read last, and the node whose edges end at `end_`.
  int64_t next_edge_ = 0;
  int64_t node_ = -1;
  int64_t end_ = 0;
  std::vector<int64_t> offsets_;
  int64_t first_offset_ = 0;
  int64_t num_offsets_ = 0;
};

}  // namespace

std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices) {
  return std::make_unique<CscEdges>(indptr, indices);
}

EdgeList::EdgeList(SourceEdges& edges)
    : owned_(edges.edges != nullptr
                 ? nullptr
                 : NewCscEdgeSource(*edges.indptr, *edges.indices)),
      list_(owned_ != nullptr ? owned_.get() : edges.edges.get()) {}

absl::Status CompressEdges(ImportContext& context, const EdgeEnds& ends,
                           SourceEdges& edges) {
  if (edges.edges == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          context.NewScratchPath("csc"));
  HEARTH_RETURN_IF_ERROR(context.files().CreateDirectory(path));
  const store::ArrayPlace place{path, "scratch", "edge"};
  HEARTH_ASSIGN_OR_RETURN(const CscArrays arrays,
                          BuildCsc(context, *edges.edges, ends, place));
  HEARTH_ASSIGN_OR_RETURN(
      edges.indptr,
      ArrayReader::OpenNpy(context.files(),
                           io::JoinPath(path, arrays.indptr.file.path)));
  HEARTH_ASSIGN_OR_RETURN(
      edges.indices,
      ArrayReader::OpenNpy(context.files(),
                           io::JoinPath(path, arrays.indices.file.path)));
  edges.edges = nullptr;
  return absl::OkStatus();
}

}  // namespace hearth::ingest
