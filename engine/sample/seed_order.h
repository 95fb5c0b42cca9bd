#ifndef HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_
#define HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/store/topology.h"

namespace hearth::sample {

/// The order in which an epoch visits its seed nodes. A pure function of the
/// epoch key. Thread-safe.
class SeedOrder {
 public:
  virtual ~SeedOrder() = default;

  /// Number of seeds: the same in every epoch.
  virtual int64_t size() const = 0;

  /// All seeds of the epoch, in order.
  virtual std::vector<store::NodeId> Epoch(uint64_t epoch_key) const = 0;
};

/// Shuffles `nodes` anew for each epoch key (Fisher-Yates).
std::unique_ptr<SeedOrder> NewShuffledOrder(std::vector<store::NodeId> nodes,
                                            uint64_t data_seed);

/// Keeps the order of `nodes`: for validation and test.
std::unique_ptr<SeedOrder> NewSequentialOrder(std::vector<store::NodeId> nodes);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SEED_ORDER_H_
