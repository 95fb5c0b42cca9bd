#ifndef HEARTH_ENGINE_SAMPLE_NEIGHBOR_DRAW_H_
#define HEARTH_ENGINE_SAMPLE_NEIGHBOR_DRAW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

/// Which of its neighbors a node draws (NeighborDraw): the same ones in every
/// sampler.

namespace hearth::sample {

/// Draws uniform subsets without replacement. Single-owner: it keeps scratch
/// memory.
class SubsetDrawer {
 public:
  /// Draws `count` distinct numbers of 0 .. bound - 1, ascending; all subsets
  /// of that size are equally likely. Takes `count` numbers from `random`
  /// (Floyd's algorithm: Bentley and Floyd, "A Sample of Brilliance", CACM
  /// 1987). The result is valid until the next call. REQUIRES: 0 <= count <=
  /// bound.
  absl::Span<const int64_t> Draw(int64_t bound, int64_t count,
                                 RandomStream& random);

 private:
  void InsertSorted(int64_t bound, int64_t count, RandomStream& random);
  void MarkBits(int64_t bound, int64_t count, RandomStream& random);

  std::vector<int64_t> chosen_;
  // One bit per number below the bound; all zero between calls.
  std::vector<uint64_t> bits_;
};

/// Draws neighbors of nodes. A draw is keyed by data seed, batch, layer, node
/// and edge type, and needs nothing else but the node's degree: no other draw,
/// and no neighbor. Single-owner: it keeps scratch memory.
class NeighborDraw {
 public:
  /// A draw from a node's list of neighbors of one edge type.
  struct List {
    /// Layer, from the seeds outward.
    size_t layer = 0;
    /// The node, numbered among all nodes.
    store::NodeId node = 0;
    size_t edge_type = 0;
    /// Neighbors in the list.
    int64_t degree = 0;
    /// Neighbors to draw at most; -1 = all.
    int32_t fanout = 0;

    /// Number of neighbors that are drawn.
    int64_t drawn() const {
      return fanout < 0 || degree <= fanout ? degree : fanout;
    }
  };

  explicit NeighborDraw(uint64_t data_seed) : data_seed_(data_seed) {}

  /// Calls `pick(i)`, i ascending, for each drawn neighbor of `list` in the
  /// batch `key`, where i counts the list's neighbors in the topology's order.
  template <typename Pick>
  void ForEach(const List& list, const BatchKey& key, Pick pick) {
    if (list.drawn() == list.degree) {
      for (int64_t i = 0; i < list.degree; ++i) pick(i);
      return;
    }
    for (const int64_t i : Subset(list, key)) pick(i);
  }

 private:
  absl::Span<const int64_t> Subset(const List& list, const BatchKey& key);

  const uint64_t data_seed_;
  SubsetDrawer subset_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_NEIGHBOR_DRAW_H_
