#ifndef HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_
#define HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/store/topology.h"

/// Orders in which an epoch visits its seeds.

namespace hearth::sample {

/// Consecutive seeds of an epoch that come from the same few parts of a
/// partition (OUTRE, section 4.2).
struct MacroBatch {
  int64_t num_seeds = 0;
  /// The parts that its seeds come from, in random order.
  std::vector<uint16_t> parts = {};

  bool operator==(const MacroBatch&) const = default;
};

/// Order in which an epoch visits its seeds, a pure function of the epoch key.
/// Thread-safe.
class SeedOrder {
 public:
  virtual ~SeedOrder() = default;

  /// Number of seeds, the same in every epoch.
  virtual int64_t size() const = 0;

  /// Seeds of the epoch, in order.
  virtual std::vector<store::NodeId> Epoch(uint64_t epoch_key) const = 0;

  /// Place of each seed of the epoch among the nodes that the order was made
  /// of, in order.
  virtual std::vector<int64_t> Places(uint64_t epoch_key) const = 0;

  /// Macro batches of the epoch, in order; none if seeds are not ordered by
  /// parts.
  virtual std::vector<MacroBatch> MacroBatches(uint64_t /*epoch_key*/) const {
    return {};
  }

  /// Text that differs between orders of equal seeds and equal data seeds;
  /// empty for orders that depend on nothing else.
  virtual std::string identity() const { return {}; }
};

/// Order that shuffles `nodes` for each epoch key (Fisher-Yates).
std::unique_ptr<SeedOrder> NewShuffledOrder(std::vector<store::NodeId> nodes,
                                            uint64_t data_seed);

/// How a partition orders seeds.
struct PartitionOrderOptions {
  /// Part of each seed, in the order of the seeds.
  absl::Span<const uint16_t> parts = {};
  /// Parts of a macro batch; an epoch's last macro batch may have fewer.
  int parts_per_macro_batch = 20;
  /// Name of the partition, for SeedOrder::identity.
  std::string partition = {};
  uint64_t data_seed = 0;
};

/// Order that, for each epoch key, shuffles the parts that have seeds, takes
/// `parts_per_macro_batch` of them at a time, and shuffles their seeds together
/// (OUTRE, section 4.2). A single part gives the order of NewShuffledOrder.
/// REQUIRES: a part for each of `nodes`; parts_per_macro_batch > 0.
std::unique_ptr<SeedOrder> NewPartitionOrder(
    absl::Span<const store::NodeId> nodes,
    const PartitionOrderOptions& options);

/// Order of `nodes` as given, in every epoch: for validation and test.
std::unique_ptr<SeedOrder> NewSequentialOrder(std::vector<store::NodeId> nodes);

/// `order`, with `name` as a part of its identity: for seeds that do not follow
/// from the dataset.
std::unique_ptr<SeedOrder> NewNamedOrder(std::unique_ptr<SeedOrder> order,
                                         std::string name);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_
