#include "engine/ingest/source/csc_edges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

class CscEdges final : public EdgeSource {
 public:
  CscEdges(ArrayReader& indptr, ArrayReader& indices, const EdgeEnds& ends)
      : indptr_(indptr),
        indices_(indices),
        ends_(ends),
        num_edges_(indices.header().shape[0]) {}

  /// OK if indptr spans the edges; checks all of it if there are none to read.
  absl::Status CheckSpan() {
    HEARTH_RETURN_IF_ERROR(Restart());
    int64_t last = 0;
    HEARTH_RETURN_IF_ERROR(
        indptr_.ReadInts(ends_.num_destinations, absl::MakeSpan(&last, 1)));
    if (last != num_edges_) {
      return indptr_.ErrorAt(
          ends_.num_destinations,
          absl::StrCat("is ", last, ", but ", indices_.path(), " has ",
                       num_edges_, " elements"));
    }
    return num_edges_ == 0 ? CheckRest() : absl::OkStatus();
  }

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    if (first == 0) HEARTH_RETURN_IF_ERROR(Restart());
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(
        indices_.ReadInts(first, absl::MakeSpan(block.sources)));
    for (int64_t i = 0; i < count; ++i) {
      while (end_ <= first + i) HEARTH_RETURN_IF_ERROR(NextNode());
      const int64_t source = block.sources[static_cast<size_t>(i)];
      if (source < 0 || source >= ends_.num_sources) {
        return indices_.ErrorAt(
            first + i, absl::StrCat("is ", source, "; node ids are 0 .. ",
                                    ends_.num_sources - 1));
      }
      block.destinations[static_cast<size_t>(i)] = node_;
    }
    return first + count == num_edges_ ? CheckRest() : absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlockOffsets = 64 << 10;

  absl::Status Restart() {
    node_ = -1;
    end_ = 0;
    next_ = 0;
    offsets_first_ = 0;
    offsets_.clear();
    // The first offset is where no node's edges end.
    HEARTH_RETURN_IF_ERROR(NextNode());
    if (end_ == 0) {
      node_ = -1;
      return absl::OkStatus();
    }
    return indptr_.ErrorAt(0, absl::StrCat("is ", end_, ", not 0"));
  }

  /// Nodes after the last edge have none.
  absl::Status CheckRest() {
    while (next_ <= ends_.num_destinations) {
      HEARTH_RETURN_IF_ERROR(NextNode());
    }
    return absl::OkStatus();
  }

  /// Goes to the next node, whose edges end at end_.
  absl::Status NextNode() {
    if (next_ > ends_.num_destinations) {
      return indptr_.Error(absl::StrCat("ends with ", end_, ", but ",
                                        indices_.path(), " has ", num_edges_,
                                        " elements"));
    }
    const auto at = static_cast<size_t>(next_ - offsets_first_);
    if (at >= offsets_.size()) {
      offsets_first_ = next_;
      offsets_.resize(static_cast<size_t>(
          std::min(kBlockOffsets, ends_.num_destinations + 1 - next_)));
      HEARTH_RETURN_IF_ERROR(indptr_.ReadInts(next_, absl::MakeSpan(offsets_)));
    }
    const int64_t offset =
        offsets_[static_cast<size_t>(next_ - offsets_first_)];
    if (offset < end_ || offset > num_edges_) {
      return indptr_.ErrorAt(
          next_, absl::StrCat("is ", offset, ", ",
                              offset < end_ ? "less than " : "more than ",
                              offset < end_ ? end_ : num_edges_,
                              offset < end_ ? " before it" : " edges"));
    }
    end_ = offset;
    ++next_;
    ++node_;
    return absl::OkStatus();
  }

  ArrayReader& indptr_;
  ArrayReader& indices_;
  const EdgeEnds ends_;
  const int64_t num_edges_;
  /// The node whose edges are being read, and where they end.
  int64_t node_ = -1;
  int64_t end_ = 0;
  /// The offset that is looked at next, and those that are at hand.
  int64_t next_ = 0;
  int64_t offsets_first_ = 0;
  std::vector<int64_t> offsets_;
};

/// CscEdges with the arrays that they are read from.
class OwnedCscEdges final : public EdgeSource {
 public:
  OwnedCscEdges(std::unique_ptr<ArrayReader> indptr,
                std::unique_ptr<ArrayReader> indices, const EdgeEnds& ends)
      : indptr_(std::move(indptr)),
        indices_(std::move(indices)),
        edges_(*indptr_, *indices_, ends) {}

  absl::Status CheckSpan() { return edges_.CheckSpan(); }

  int64_t num_edges() const override { return edges_.num_edges(); }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    return edges_.Read(first, count, block);
  }

 private:
  const std::unique_ptr<ArrayReader> indptr_;
  const std::unique_ptr<ArrayReader> indices_;
  CscEdges edges_;
};

}  // namespace

std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices) {
  return std::make_unique<CscEdges>(
      indptr, indices,
      EdgeEnds{.num_sources = std::numeric_limits<int64_t>::max(),
               .num_destinations = indptr.header().shape[0] - 1});
}

absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends) {
  auto edges = std::make_unique<OwnedCscEdges>(std::move(indptr),
                                               std::move(indices), ends);
  HEARTH_RETURN_IF_ERROR(edges->CheckSpan());
  return edges;
}

}  // namespace hearth::ingest
