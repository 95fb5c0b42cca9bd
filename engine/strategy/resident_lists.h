#ifndef HEARTH_ENGINE_STRATEGY_RESIDENT_LISTS_H_
#define HEARTH_ENGINE_STRATEGY_RESIDENT_LISTS_H_

#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/partition.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"

namespace hearth::strategy {

/// The neighbor lists that a strategy has in memory while it samples a pass, so
/// that drawing from them reads nothing. Immutable.
class ResidentLists {
 public:
  virtual ~ResidentLists() = default;

  /// Whether that of `node` is there while batch `batch` is sampled.
  virtual bool Has(int64_t batch, store::NodeId node) const = 0;
};

/// The pass for which resident lists are looked up; all of it outlives the
/// call.
struct ResidentListsRequest {
  io::FileSystem& files;
  const store::Dataset& dataset;
  /// As StrategyResources::partition.
  std::shared_ptr<const plan::Partition> partition;
  /// As for Strategy::Prepare. The first is the one in question.
  absl::Span<const Pass> passes;
  std::stop_token stop;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_RESIDENT_LISTS_H_
