#include "engine/sample/typed_sampler.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/topology_damage.h"
#include "engine/sample/typed_layered_sampler.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using store::Relation;

// How far ahead of its use a list of neighbors is asked for.
constexpr size_t kListsAhead = 16;

class TypedSampler final : public TypedLayeredSampler {
 public:
  TypedSampler(absl::Span<const Relation> relations,
               const store::NodeSpace& nodes, NeighborSamplerOptions options)
      : TypedLayeredSampler(relations, nodes, std::move(options)) {}

 private:
  absl::Status SampleSources(size_t layer, MiniBatch& batch,
                             Block& block) override {
    for (int64_t row = 0; row < block.num_destinations; ++row) {
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

  // Asks for the neighbors of a later list.
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
