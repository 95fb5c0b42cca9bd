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

/// The dynamic neighbor cache of OUTRE: which macro batches a batch has seeds
/// of (PassMacroBatches), their neighbor lists in memory (MacroBatchLists), and
/// when they are read and released (DynamicNeighborCache).

namespace hearth::strategy {

/// The neighbor lists of all nodes of some parts, in a hash table with open
/// addressing and linear probing. Immutable; thread-safe.
class MacroBatchLists final : public sample::NeighborLists {
 public:
  /// Reads `parts`, distinct parts of `partition`, one after the other. Errors
  /// as Partition::ReadPart.
  static absl::StatusOr<std::unique_ptr<const MacroBatchLists>> Read(
      const plan::Partition& partition, absl::Span<const uint16_t> parts);

  /// Memory of the lists of `parts`: memory_bytes() after Read.
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
    // The address of the first neighbor.
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

  // Their number is a power of two; at least a quarter of them are unused.
  std::vector<Slot> slots_;
  // 64 - log2(slots_.size()).
  int shift_;
  // Whether ids of neighbors have 8 bytes, not 4.
  bool wide_ = false;
  std::vector<plan::PartLists> parts_;
};

/// Macro batches `first` .. `end - 1` of an epoch.
struct MacroBatchRange {
  int64_t first = 0;
  int64_t end = 0;

  bool operator==(const MacroBatchRange&) const = default;
};

/// The macro batches of a pass, and the range of them that each batch has seeds
/// of: a batch may straddle several.
class PassMacroBatches {
 public:
  explicit PassMacroBatches(const Pass& pass);

  /// All macro batches, in order; empty if no partition orders the seeds.
  const std::vector<sample::MacroBatch>& all() const { return all_; }

  int64_t num_batches() const;

  /// The macro batches that batch `batch` has seeds of. REQUIRES: it has seeds.
  MacroBatchRange Of(int64_t batch) const;

 private:
  const int64_t batch_size_;
  const std::vector<sample::MacroBatch> all_;
  // End of each macro batch's seeds among the seeds of the epoch.
  std::vector<int64_t> ends_;
};

/// The batch-specific dynamic neighbor cache (OUTRE, section 4.2): while a
/// batch is sampled, the lists of all nodes in the parts of its macro batches
/// are in memory. Each feed reads each macro batch once, part after part, as
/// soon as the reserved bytes allow; they always allow the macro batch behind
/// any batch's own, so that it is read ahead. Batches share lists, and which
/// lists a batch has depends on the pass and the reserved bytes alone.
class DynamicNeighborCache final : public ListSource {
 public:
  /// `clock` outlives the cache.
  DynamicNeighborCache(std::shared_ptr<const plan::Partition> partition,
                       const Clock& clock);

  std::string level() const override { return "dynamic_neighbor_cache"; }

  /// The most bytes that the macro batches of any batch and the next macro
  /// batch take; 0, so that nothing is cached, if that is above half the
  /// budget. The listener's log tells which.
  uint64_t Reserve(absl::Span<const Pass> passes, uint64_t budget_bytes,
                   const PreparationListener& listener) override;

  /// Leaves out macro batches that do not fit into the reserved bytes together
  /// with the batch's others, as may be in passes that Reserve was not told of.
  std::unique_ptr<ListFeed> NewFeed(const Pass& pass) override;

 private:
  const std::shared_ptr<const plan::Partition> partition_;
  const Clock& clock_;
  // Bytes of lists held at a time, at most; set by Reserve.
  uint64_t budget_bytes_ = 0;
};

/// How DynamicNeighborCache::Reserve chooses its bytes.
struct DynamicNeighborBudget {
  /// The most bytes that the macro batches of any batch and the next macro
  /// batch take.
  uint64_t needed_bytes = 0;
  /// `needed_bytes`, or 0 if that is above half the budget.
  uint64_t reserved_bytes = 0;

  static DynamicNeighborBudget Of(const plan::Partition& partition,
                                  absl::Span<const Pass> passes,
                                  uint64_t budget_bytes);

  /// A sentence for people; empty where there are no macro batches.
  std::string Describe(uint64_t budget_bytes) const;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_DYNAMIC_NEIGHBOR_CACHE_H_
