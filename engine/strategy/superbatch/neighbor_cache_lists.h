#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_LISTS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_LISTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/topology.h"
#include "engine/strategy/resident_lists.h"
#include "engine/strategy/superbatch/options.h"

namespace hearth::strategy {

/// The lists that the neighbor cache of a strategy with superbatches holds.
class NeighborCacheLists final : public ResidentLists {
 public:
  /// Chooses them as the strategy does, for a cache of `bytes`. Errors as
  /// NeighborCache::Choose and Dataset::OpenTopology.
  static absl::StatusOr<NeighborCacheLists> Find(
      NeighborRank rank, uint64_t bytes, const ResidentListsRequest& request);

  bool Has(int64_t /*batch*/, store::NodeId node) const override {
    return inside_[static_cast<size_t>(node)];
  }

 private:
  explicit NeighborCacheLists(std::vector<bool> inside)
      : inside_(std::move(inside)) {}

  // [num_nodes]
  std::vector<bool> inside_;
};

/// Text that differs where these options let other lists be in memory.
std::string DescribeNeighborCache(const SuperbatchOptions& options);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_LISTS_H_
