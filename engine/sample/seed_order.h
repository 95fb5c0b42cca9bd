#ifndef HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_
#define HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// Seeds that lie next to each other in an epoch because they come from the
/// same few parts of a partition (OUTRE, section 4.2).
struct MacroBatch {
  /// Number of its seeds.
  int64_t num_seeds = 0;
  /// The parts that its seeds come from, in random order.
  std::vector<uint16_t> parts = {};

  bool operator==(const MacroBatch&) const = default;
};

/// The order in which an epoch visits its seed nodes. A pure function of the
/// epoch key. Thread-safe.
class SeedOrder {
 public:
  virtual ~SeedOrder() = default;

  /// Number of seeds: the same in every epoch.
  virtual int64_t size() const = 0;

  /// All seeds of the epoch, in order.
  virtual std::vector<store::NodeId> Epoch(uint64_t epoch_key) const = 0;

  /// The epoch's macro batches, which follow each other; none if seeds are not
  /// ordered by parts.
  virtual std::vector<MacroBatch> MacroBatches(uint64_t /*epoch_key*/) const {
    return {};
  }

  /// Text that differs between orders of the same seeds with equal data seeds;
  /// empty for those that follow from these alone.
  virtual std::string identity() const { return {}; }
};

/// Shuffles `nodes` anew for each epoch key (Fisher-Yates).
std::unique_ptr<SeedOrder> NewShuffledOrder(std::vector<store::NodeId> nodes,
                                            uint64_t data_seed);

/// The way in which a partition orders seeds.
struct PartitionOrderOptions {
  /// The part of each seed, in the order of the seeds.
  absl::Span<const uint16_t> parts = {};
  /// Parts of a macro batch; the last one of an epoch may have fewer.
  int parts_per_macro_batch = 20;
  /// The name of the partition, for SeedOrder::identity.
  std::string partition = {};
  uint64_t data_seed = 0;
};

/// For each epoch key, shuffles the parts that have seeds, takes them
/// `parts_per_macro_batch` at a time, and shuffles the seeds of these (OUTRE,
/// section 4.2). A single part gives the order of NewShuffledOrder.
/// REQUIRES: a part for each of `nodes`; parts_per_macro_batch > 0.
std::unique_ptr<SeedOrder> NewPartitionOrder(
    absl::Span<const store::NodeId> nodes,
    const PartitionOrderOptions& options);

/// Keeps the order of `nodes`: for validation and test.
std::unique_ptr<SeedOrder> NewSequentialOrder(std::vector<store::NodeId> nodes);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_
