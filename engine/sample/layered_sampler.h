#ifndef HEARTH_ENGINE_SAMPLE_LAYERED_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_LAYERED_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/layer_draw.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/node_table.h"
#include "engine/sample/subset.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// The part that all neighbor samplers have in common: which neighbors of which
/// nodes are drawn. Wherever the neighbors themselves come from, the batch is
/// the same. Single-owner.
class LayeredSampler : public NeighborSampler {
 public:
  absl::StatusOr<MiniBatch> Sample(const BatchKey& key,
                                   absl::Span<const store::NodeId> seeds) final;
  absl::StatusOr<MiniBatch> SampleTop(
      const BatchKey& key, absl::Span<const store::NodeId> seeds) final;
  absl::Status SampleRest(MiniBatch& batch) final;

 protected:
  /// `indptr`, as in store::Topology, must outlive the sampler. Sample gives
  /// DATA_LOSS where it, or a neighbor, leads out of the topology.
  LayeredSampler(absl::Span<const int64_t> indptr,
                 NeighborSamplerOptions options);

  /// A block whose destinations are the input nodes so far: its indptr is set,
  /// and there is room for its indices.
  virtual Block NewBlock(size_t layer, const MiniBatch& batch) const;

  /// Extends the in-degrees, and what is known of them besides, to all input
  /// nodes.
  virtual absl::Status LookUpNewNodes(MiniBatch& batch);

  /// Called before the input nodes are given anew.
  virtual void ForgetNodes() { row_starts_.clear(); }

  /// Fills in the indices of `block`, whose destinations are the input nodes so
  /// far and whose indptr is set; numbers its sources in the order of its
  /// edges.
  virtual absl::Status SampleSources(size_t layer, MiniBatch& batch,
                                     Block& block) = 0;

  /// Where input node `row` has its first neighbor in the topology's indices.
  int64_t RowStart(int64_t row) const { return row_starts_[row]; }

  /// Calls `pick(i)`, i ascending, for each drawn neighbor of input node `row`:
  /// the i-th in the topology's order.
  template <typename Pick>
  void DrawNeighbors(size_t layer, const MiniBatch& batch, int64_t row,
                     Pick pick) {
    const int64_t degree = batch.in_degrees[row];
    const int32_t fanout = options_.fanouts[layer];
    if (fanout < 0 || degree <= fanout) {
      for (int64_t i = 0; i < degree; ++i) pick(i);
      return;
    }
    for (const int64_t i : DrawSubset({.layer = layer,
                           .node = batch.input_nodes[row],
                           .degree = degree,
                           .fanout = fanout},
                                      batch.key)) {
      pick(i);
    }
  }

  /// A node some of whose neighbors of one edge type are drawn.
  struct Draw {
    size_t layer = 0;
    store::NodeId node = 0;
    size_t edge_type = 0;
    int64_t degree = 0;
    int32_t fanout = 0;
  };

  /// Which of its neighbors are drawn, ascending; valid until the next call.
  absl::Span<const int64_t> DrawSubset(const Draw& draw, const BatchKey& key);

  const NeighborSamplerOptions& options() const { return options_; }

  /// The position of `node` in `nodes`, to which it is added if new.
  int32_t Number(store::NodeId node, std::vector<store::NodeId>& nodes) {
    const auto next = static_cast<int32_t>(nodes.size());
    const int32_t position = positions_.FindOrAdd(node, next);
    if (position == next) nodes.push_back(node);
    return position;
  }

  /// Asks for what Number(node) will touch.
  void PrefetchNumber(store::NodeId node) const { positions_.Prefetch(node); }

 private:
  absl::Status Start(absl::Span<const store::NodeId> nodes, MiniBatch& batch);
  absl::Status SampleLayer(size_t layer, MiniBatch& batch);
  void ThinLayer(size_t layer, MiniBatch& batch, Block& block);

  const absl::Span<const int64_t> indptr_;
  const NeighborSamplerOptions options_;
  NodeTable positions_;
  SubsetDrawer subset_;
  LayerDraw layer_draw_;
  // Where each input node's row starts in the topology's indices.
  std::vector<int64_t> row_starts_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_LAYERED_SAMPLER_H_
