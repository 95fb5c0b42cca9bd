#include "engine/sample/stored_sampler.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/sample/layered_sampler.h"

// The choice of a node's neighbors depends on its degree alone, so a layer
// is sampled in three steps:
//
//  1. All of its edges are drawn. The sources of those that start from a list
//     in memory are known at once; the others name indices to be read.
//  2. These indices are read, all at once and in any order.
//  3. The sources are numbered in the order of the edges.

namespace hearth::sample {
namespace {

using store::NodeId;

// How far ahead of its use a node, or an edge's source, is asked for.
constexpr int64_t kAhead = 16;

class StoredNeighborSampler final : public LayeredSampler {
 public:
  StoredNeighborSampler(const StoredNeighbors& neighbors,
                        NeighborSamplerOptions options)
      : LayeredSampler(neighbors.topology.indptr, std::move(options)),
        neighbors_(neighbors) {}

 private:
  absl::Status SampleSources(size_t layer, MiniBatch& batch,
                             Block& block) override {
    sources_.resize(block.indices.size());
    wanted_.clear();
    wanted_edges_.clear();
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      if (row + kAhead < block.num_destinations) {
        Prefetch(batch.input_nodes[row + kAhead]);
      }
      // Nothing is asked for a node without neighbors.
      if (block.indptr[row] == block.indptr[row + 1]) continue;
      DrawSources(layer, batch, row, block.indptr[row]);
    }
    HEARTH_RETURN_IF_ERROR(ReadWanted());
    for (size_t edge = 0; edge < sources_.size(); ++edge) {
      if (edge + kAhead < sources_.size()) {
        PrefetchNumber(sources_[edge + kAhead]);
      }
      block.indices[edge] = Number(sources_[edge], batch.input_nodes);
    }
    return absl::OkStatus();
  }

  void Prefetch(NodeId node) const {
    neighbors_.cache.Prefetch(node);
    for (const auto& lists : neighbors_.batch_lists) lists->Prefetch(node);
  }

  // Step 1 for the edges of `row`, from `edge` on.
  void DrawSources(size_t layer, const MiniBatch& batch, int64_t row,
                   int64_t edge) {
    const NodeId node = batch.input_nodes[row];
    const int64_t place = neighbors_.cache.Find(node);
    if (place != NeighborCache::kAbsent) {
      ++neighbors_.lists.cached;
      DrawNeighbors(layer, batch, row, [&](int64_t i) {
        sources_[edge++] = neighbors_.cache.At(place + i);
      });
      return;
    }
    for (const auto& lists : neighbors_.batch_lists) {
      const std::optional<NeighborList> list = lists->Find(node);
      if (!list.has_value()) continue;
      ++neighbors_.lists.held;
      DrawNeighbors(layer, batch, row,
                    [&](int64_t i) { sources_[edge++] = (*list)[i]; });
      return;
    }
    ++neighbors_.lists.stored;
    const int64_t start = RowStart(row);
    DrawNeighbors(layer, batch, row, [&](int64_t i) {
      wanted_.push_back(start + i);
      wanted_edges_.push_back(edge++);
    });
  }

  absl::Status ReadWanted() {
    // The position of one that is no node.
    int64_t bad = -1;
    const auto arrived = [&](size_t position, const std::byte* index) {
      const NodeId source = Decode(index);
      if (source < 0 || source >= neighbors_.topology.num_nodes()) {
        bad = static_cast<int64_t>(position);
        return;
      }
      sources_[wanted_edges_[position]] = source;
    };
    if (wanted_.empty()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(neighbors_.reader.Read(
        wanted_, arrived, neighbors_.stop, neighbors_.tally));
    if (bad < 0) return absl::OkStatus();
    const StoredTopology& topology = neighbors_.topology;
    return absl::DataLossError(
        absl::StrCat(topology.indices_path, ": the neighbor at byte ",
                     topology.indices_offset +
                         static_cast<uint64_t>(wanted_[bad]) *
                             static_cast<uint64_t>(topology.index_bytes),
                     " is not one of ", topology.num_nodes(), " nodes"));
  }

  NodeId Decode(const std::byte* index) const {
    if (neighbors_.topology.index_bytes == 4) {
      int32_t narrow;
      std::memcpy(&narrow, index, sizeof(narrow));
      return narrow;
    }
    int64_t wide;
    std::memcpy(&wide, index, sizeof(wide));
    return wide;
  }

  const StoredNeighbors neighbors_;
  // The source of each edge of the layer.
  std::vector<NodeId> sources_;
  // Indices to be read, and the edges whose sources they are.
  std::vector<int64_t> wanted_;
  std::vector<int64_t> wanted_edges_;
};

}  // namespace

std::unique_ptr<NeighborSampler> NewStoredNeighborSampler(
    const StoredNeighbors& neighbors, NeighborSamplerOptions options) {
  return std::make_unique<StoredNeighborSampler>(neighbors, std::move(options));
}

}  // namespace hearth::sample
