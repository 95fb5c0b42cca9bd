#include "engine/sample/neighbor_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/sample/layered_sampler.h"
#include "engine/sample/mini_batch.h"

// Steps of sampling a layer:
//
//  1. The nodes that the previous layer added are looked up in the topology:
//     start and length of their rows. So the number of edges is known before
//     the first edge is drawn.
//  2. The sources of the edges of a chunk of destinations are drawn.
//  3. The chunk's sources are numbered in the order in which they were met.
// Every access goes to a random place in a large array, so each step prefetches
// what its own later iterations, or the next step, will touch.

namespace hearth::sample {

namespace {

using store::NodeId;

// Destinations per chunk: table slots of their sources should stay in the L2
// cache between steps 2 and 3.
constexpr int64_t kChunk = 64;
// Prefetch distance, in rows.
constexpr int64_t kRowsAhead = 8;

template <typename Index>
class AddressableNeighborSampler final : public LayeredSampler {
 public:
  AddressableNeighborSampler(absl::Span<const int64_t> indptr,
                             absl::Span<const Index> indices,
                             NeighborSamplerOptions options)
      : LayeredSampler(indptr, std::move(options)), indices_(indices) {}

 private:
  absl::Status SampleSources(size_t layer, int64_t first_row, MiniBatch& batch,
                             Block& block) override {
    block.indices.resize(static_cast<size_t>(block.indptr.back()));
    auto edge = block.indices.begin() + block.indptr[first_row];
    for (int64_t begin = first_row; begin < block.num_destinations;
         begin += kChunk) {
      const int64_t end = std::min(begin + kChunk, block.num_destinations);
      picked_.clear();
      for (int64_t row = begin; row < end; ++row) {
        if (row + kRowsAhead < block.num_destinations) {
          __builtin_prefetch(indices_.data() + RowStart(row + kRowsAhead));
        }
        const Index* neighbors = indices_.data() + RowStart(row);
        DrawNeighbors(layer, batch, row, [&](int64_t i) {
          PrefetchNumber(neighbors[i]);
          picked_.push_back(neighbors[i]);
        });
      }
      for (const NodeId node : picked_) {
        *edge++ = Number(node, batch.input_nodes);
      }
    }
    return absl::OkStatus();
  }

  const absl::Span<const Index> indices_;
  // Sources of the current chunk's edges.
  std::vector<NodeId> picked_;
};

}  // namespace

std::unique_ptr<NeighborSampler> NewNeighborSampler(
    const store::Topology& topology, NeighborSamplerOptions options) {
  return std::visit(
      [&](const auto indices) -> std::unique_ptr<NeighborSampler> {
        using Index =
            std::remove_const_t<typename decltype(indices)::value_type>;
        return std::make_unique<AddressableNeighborSampler<Index>>(
            topology.indptr, indices, std::move(options));
      },
      topology.indices);
}

namespace {

using store::Relation;

// Prefetch distance, in neighbor lists.
constexpr size_t kListsAhead = 16;

class TypedSampler final : public TypedLayeredSampler {
 public:
  TypedSampler(absl::Span<const Relation> relations,
               const store::NodeSpace& nodes, NeighborSamplerOptions options)
      : TypedLayeredSampler(relations, nodes, std::move(options)) {}

 private:
  absl::Status SampleSources(size_t layer, int64_t first_row, MiniBatch& batch,
                             Block& block) override {
    for (int64_t row = first_row; row < block.num_destinations; ++row) {
      const NodeId node = batch.input_nodes[row];
      for (const List& list : ListsOf(static_cast<size_t>(row))) {
        PrefetchLater(list);
        const absl::Status status = std::visit(
            [&](const auto indices) {
              return SampleList(layer, node, list, indices.data() + list.start,
                                batch, block);
            },
            list.relation->topology.indices);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Appends the edges of one list to the block.
  template <typename Index>
  absl::Status SampleList(size_t layer, NodeId node, const List& list,
                          const Index* neighbors, MiniBatch& batch,
                          Block& block) {
    const Relation& relation = *list.relation;
    std::optional<int64_t> wrong;
    DrawFrom(list, layer, node, batch.key, [&](int64_t i) {
      const auto neighbor = static_cast<int64_t>(neighbors[i]);
      if (neighbor < 0 || neighbor >= relation.num_sources) {
        wrong = neighbor;
        return;
      }
      block.indices.push_back(
          Number(relation.first_source + neighbor, batch.input_nodes));
      block.edge_types.push_back(relation.type);
    });
    if (!wrong.has_value()) return absl::OkStatus();
    return NoSource(relation, *wrong);
  }

  // Prefetches the neighbors of a later list.
  void PrefetchLater(const List& list) const {
    const auto at =
        static_cast<size_t>(&list - all_lists().data()) + kListsAhead;
    if (at >= all_lists().size()) return;
    const List& later = all_lists()[at];
    std::visit(
        [&](const auto indices) {
          __builtin_prefetch(indices.data() + later.start);
        },
        later.relation->topology.indices);
  }
};

}  // namespace

std::unique_ptr<NeighborSampler> NewTypedSampler(
    absl::Span<const Relation> relations, const store::NodeSpace& nodes,
    NeighborSamplerOptions options) {
  return std::make_unique<TypedSampler>(relations, nodes, std::move(options));
}

}  // namespace hearth::sample
