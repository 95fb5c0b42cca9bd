#include "engine/ingest/import/edge_adaptors.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

class EdgesWithReverse final : public EdgeSource {
 public:
  explicit EdgesWithReverse(std::unique_ptr<EdgeSource> edges)
      : edges_(std::move(edges)) {}

  int64_t num_edges() const override { return 2 * edges_->num_edges(); }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    // A block may begin with the reverse of an edge that the block before ended
    // with, which is then at hand: the edges are read once, in order.
    const int64_t begin = first / 2;
    const int64_t end = (first + count + 1) / 2;
    const bool has_first = first % 2 == 1 && begin == last_index_;
    const int64_t from = has_first ? begin + 1 : begin;
    if (from < end) {
      HEARTH_RETURN_IF_ERROR(edges_->Read(from, end - from, some_));
    } else {
      some_.sources.clear();
      some_.destinations.clear();
    }
    block.sources.resize(static_cast<size_t>(count));
    block.destinations.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t edge = (first + i) / 2;
      auto [source, destination] = last_;
      if (edge >= from) {
        source = some_.sources[static_cast<size_t>(edge - from)];
        destination = some_.destinations[static_cast<size_t>(edge - from)];
      }
      if ((first + i) % 2 == 1) std::swap(source, destination);
      block.sources[static_cast<size_t>(i)] = source;
      block.destinations[static_cast<size_t>(i)] = destination;
    }
    if (!some_.sources.empty()) {
      last_ = {some_.sources.back(), some_.destinations.back()};
      last_index_ = end - 1;
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<EdgeSource> edges_;
  EdgeBlock some_;
  /// The last edge that was read, and which it was.
  std::pair<int64_t, int64_t> last_;
  int64_t last_index_ = -1;
};

class ReversedEdges final : public EdgeSource {
 public:
  explicit ReversedEdges(std::unique_ptr<EdgeSource> edges)
      : edges_(std::move(edges)) {}

  int64_t num_edges() const override { return edges_->num_edges(); }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    HEARTH_RETURN_IF_ERROR(edges_->Read(first, count, block));
    std::swap(block.sources, block.destinations);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<EdgeSource> edges_;
};

class CscEdges final : public EdgeSource {
 public:
  CscEdges(std::unique_ptr<ArrayReader> indptr,
           std::unique_ptr<ArrayReader> indices, const EdgeEnds& ends)
      : indptr_(std::move(indptr)),
        indices_(std::move(indices)),
        ends_(ends),
        num_edges_(indices_->header().shape[0]) {}

  /// OK if indptr spans the edges; checks all of it if there are none to read.
  absl::Status CheckSpan() {
    HEARTH_RETURN_IF_ERROR(Restart());
    int64_t last = 0;
    HEARTH_RETURN_IF_ERROR(
        indptr_->ReadInts(ends_.num_destinations, absl::MakeSpan(&last, 1)));
    if (last != num_edges_) {
      return indptr_->ErrorAt(
          ends_.num_destinations,
          absl::StrCat("is ", last, ", but ", indices_->path(), " has ",
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
        indices_->ReadInts(first, absl::MakeSpan(block.sources)));
    for (int64_t i = 0; i < count; ++i) {
      while (end_ <= first + i) HEARTH_RETURN_IF_ERROR(NextNode());
      const int64_t source = block.sources[static_cast<size_t>(i)];
      if (source < 0 || source >= ends_.num_sources) {
        return indices_->ErrorAt(
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
    return indptr_->ErrorAt(0, absl::StrCat("is ", end_, ", not 0"));
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
      return indptr_->Error("was changed while it was read");
    }
    const auto at = static_cast<size_t>(next_ - offsets_first_);
    if (at >= offsets_.size()) {
      offsets_first_ = next_;
      offsets_.resize(static_cast<size_t>(
          std::min(kBlockOffsets, ends_.num_destinations + 1 - next_)));
      HEARTH_RETURN_IF_ERROR(
          indptr_->ReadInts(next_, absl::MakeSpan(offsets_)));
    }
    const int64_t offset =
        offsets_[static_cast<size_t>(next_ - offsets_first_)];
    if (offset < end_ || offset > num_edges_) {
      return indptr_->ErrorAt(
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

  const std::unique_ptr<ArrayReader> indptr_;
  const std::unique_ptr<ArrayReader> indices_;
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

}  // namespace

absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends) {
  auto edges =
      std::make_unique<CscEdges>(std::move(indptr), std::move(indices), ends);
  HEARTH_RETURN_IF_ERROR(edges->CheckSpan());
  return edges;
}

std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges) {
  return std::make_unique<EdgesWithReverse>(std::move(edges));
}

std::unique_ptr<EdgeSource> NewReversedEdges(
    std::unique_ptr<EdgeSource> edges) {
  return std::make_unique<ReversedEdges>(std::move(edges));
}

}  // namespace hearth::ingest
