#ifndef HEARTH_ENGINE_STRATEGY_OUTRE_DYNAMIC_NEIGHBOR_CACHE_H_
#define HEARTH_ENGINE_STRATEGY_OUTRE_DYNAMIC_NEIGHBOR_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/plan/partition/partition.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/list_feed.h"

namespace hearth::strategy {

/// The batch-specific dynamic neighbor cache (OUTRE, section 4.2): while a
/// batch is sampled, the lists of all nodes in the parts of its macro batches
/// are in memory. Each macro batch is read once by each feed, part after part,
/// as soon as there is room for it, which there is for the one that follows
/// those of any batch: so it is read ahead. Batches share what they hold of it,
/// and which lists a batch holds depends on the pass and the room alone.
class DynamicNeighborCache final : public ListSource {
 public:
  /// `clock` outlives it.
  DynamicNeighborCache(std::shared_ptr<const plan::Partition> partition,
                       const Clock& clock);

  std::string level() const override { return "dynamic_neighbor_cache"; }

  /// The bytes of the macro batches of a batch and the next one, where they are
  /// the most; nothing is cached, which the listener hears, if that is above
  /// half the budget.
  uint64_t Reserve(absl::Span<const Pass> passes, uint64_t budget_bytes,
                   const PreparationListener& listener) override;

  /// Macro batches that do not fit into what was reserved beside the batch's
  /// others are left out: those of passes that Reserve was not told of.
  std::unique_ptr<ListFeed> NewFeed(const Pass& pass) override;

 private:
  const std::shared_ptr<const plan::Partition> partition_;
  const Clock& clock_;
  // Bytes of lists held, at most.
  uint64_t room_bytes_ = 0;
};

/// The bytes that DynamicNeighborCache::Reserve gives.
struct DynamicNeighborBudget {
  /// Bytes of the macro batches of any batch and the next one, at most.
  uint64_t needed_bytes = 0;
  /// The same, or 0 where that is above half the budget.
  uint64_t reserved_bytes = 0;

  static DynamicNeighborBudget Of(const plan::Partition& partition,
                                  absl::Span<const Pass> passes,
                                  uint64_t budget_bytes);

  /// A sentence for people; empty where there are no macro batches.
  std::string Describe(uint64_t budget_bytes) const;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_DYNAMIC_NEIGHBOR_CACHE_H_
