#include "engine/ingest/import/edge_adaptors.h"

#include <cstdint>
#include <utility>

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

}  // namespace

std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges) {
  return std::make_unique<EdgesWithReverse>(std::move(edges));
}

std::unique_ptr<EdgeSource> NewReversedEdges(
    std::unique_ptr<EdgeSource> edges) {
  return std::make_unique<ReversedEdges>(std::move(edges));
}

}  // namespace hearth::ingest
