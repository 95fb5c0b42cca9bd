#ifndef HEARTH_ENGINE_STRATEGY_OUTRE_DYNAMIC_NEIGHBOR_CACHE_H_
#define HEARTH_ENGINE_STRATEGY_OUTRE_DYNAMIC_NEIGHBOR_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/seed_order.h"
#include "engine/sample/stored_sampler.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/neighbor_lists.h"

namespace hearth::strategy {

/// The neighbor lists of all nodes of some parts, found by a hash table with
/// open addressing and linear probing. Immutable; thread-safe.
class MacroBatchLists final : public sample::NeighborLists {
 public:
  /// Reads `parts`, distinct ones of `partition`, one after the other. Errors
  /// as Partition::ReadPart.
  static absl::StatusOr<std::unique_ptr<const MacroBatchLists>> Read(
      const plan::Partition& partition, absl::Span<const uint16_t> parts);

  /// Memory of the lists of `parts`: the same as memory_bytes() of what Read
  /// gives.
  static uint64_t MemoryBytes(const plan::Partition& partition,
                              absl::Span<const uint16_t> parts);

  std::optional<sample::NeighborList> Find(store::NodeId node) const override;

  void Prefetch(store::NodeId node) const override {
    __builtin_prefetch(&slots_[Home(node)]);
  }

  uint64_t memory_bytes() const;

 private:
  static constexpr store::NodeId kNone = -1;

  struct Slot {
    store::NodeId node = kNone;
    // The first neighbor.
    const void* list = nullptr;
  };

  explicit MacroBatchLists(int64_t num_nodes);

  static size_t NumSlots(int64_t num_nodes);
  void Add(plan::PartLists part);
  void Add(store::NodeId node, const void* list);

  // Multiplicative hashing: the golden ratio spreads runs of ids evenly.
  size_t Home(store::NodeId node) const {
    return (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15) >> shift_;
  }

  // A power of two, at least a quarter of them unused.
  std::vector<Slot> slots_;
  // 64 - log2(slots_.size()).
  int shift_;
  // Neighbors have 8 bytes, not 4.
  bool wide_ = false;
  std::vector<plan::PartLists> parts_;
};

/// Macro batches `first` .. `end - 1` of an epoch.
struct MacroBatchRange {
  int64_t first = 0;
  int64_t end = 0;

  bool operator==(const MacroBatchRange&) const = default;
};

/// The macro batches of a pass, and which of them each batch has seeds of: a
/// batch may straddle several.
class PassMacroBatches {
 public:
  explicit PassMacroBatches(const Pass& pass);

  /// All of them, in order; none if parts do not order the seeds.
  const std::vector<sample::MacroBatch>& all() const { return all_; }

  int64_t num_batches() const;

  /// Those that batch `batch` has seeds of. REQUIRES: it has seeds.
  MacroBatchRange Of(int64_t batch) const;

 private:
  const int64_t batch_size_;
  const std::vector<sample::MacroBatch> all_;
  // Where the seeds of each end among those of the epoch.
  std::vector<int64_t> ends_;
};

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
