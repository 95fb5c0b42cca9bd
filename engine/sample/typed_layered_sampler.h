#ifndef HEARTH_ENGINE_SAMPLE_TYPED_LAYERED_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_TYPED_LAYERED_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/sample/layered_sampler.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/node_space.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// The part that samplers of heterographs have in common: which lists of
/// neighbors, one of each edge type, the input nodes have. Single-owner.
class TypedLayeredSampler : public LayeredSampler {
 protected:
  /// Only the indptr of each of `relations` is used; both must outlive the
  /// sampler.
  TypedLayeredSampler(absl::Span<const store::Relation> relations,
                      const store::NodeSpace& nodes,
                      NeighborSamplerOptions options);

  /// The neighbors of one edge type that an input node has.
  struct List {
    const store::Relation* relation = nullptr;
    /// The place of its first neighbor among the edges of the relation.
    int64_t start = 0;
    /// Neighbors, 1 or more, and those of the node's lists before this one.
    int64_t degree = 0;
    int64_t before = 0;
  };

  /// Those of input node `row`, by edge type.
  absl::Span<const List> ListsOf(size_t row) const {
    return all_lists().subspan(first_lists_[row],
                               first_lists_[row + 1] - first_lists_[row]);
  }

  /// Those of all input nodes, one node's after the other's.
  absl::Span<const List> all_lists() const { return lists_; }

  /// Neighbors of `list` that a layer draws at most; -1 = all.
  int32_t Fanout(size_t layer, const List& list) const {
    return options().Fanout(layer, list.relation->type);
  }

  /// Calls `pick(i)`, i ascending, for each drawn neighbor of `list`, one of
  /// those of `node`: the i-th in the topology's order.
  template <typename Pick>
  void DrawFrom(const List& list, size_t layer, store::NodeId node,
                const BatchKey& key, Pick pick) {
    const int32_t fanout = Fanout(layer, list);
    if (fanout < 0 || list.degree <= fanout) {
      for (int64_t i = 0; i < list.degree; ++i) pick(i);
      return;
    }
    for (const int64_t i : DrawSubset({.layer = layer,
                           .node = node,
                           .edge_type = list.relation->type,
                           .degree = list.degree,
                           .fanout = fanout},
                                      key)) {
      pick(i);
    }
  }

  /// Room for edges is reserved, not filled.
  Block NewBlock(size_t layer, const MiniBatch& batch) const override;

 private:
  absl::Status LookUpNewNodes(MiniBatch& batch) final;
  void ForgetNodes() final;

  const absl::Span<const store::Relation> relations_;
  const store::NodeSpace nodes_;
  // By node type: the relations that lead to it.
  const std::vector<std::vector<size_t>> into_;
  std::vector<List> lists_;
  // Where each input node's begin, [input nodes + 1].
  std::vector<size_t> first_lists_ = {0};
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_TYPED_LAYERED_SAMPLER_H_
