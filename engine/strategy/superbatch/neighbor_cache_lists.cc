#include "engine/strategy/superbatch/neighbor_cache_lists.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/store/dataset.h"
#include "engine/store/stored_topology.h"

namespace hearth::strategy {

absl::StatusOr<NeighborCacheLists> NeighborCacheLists::Find(
    NeighborRank rank, uint64_t bytes, const ResidentListsRequest& request) {
  HEARTH_ASSIGN_OR_RETURN(const store::StoredTopology topology,
                          request.dataset.OpenTopology({}, request.stop));
  std::vector<uint32_t> cross_counts;
  if (rank == NeighborRank::kCross) {
    HEARTH_ASSIGN_OR_RETURN(cross_counts, request.partition->LoadCrossCounts());
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::vector<store::NodeId> nodes,
      sample::NeighborCache::Choose(
          request.files, topology,
          {.budget_bytes = bytes, .cross_counts = cross_counts}, request.stop));
  std::vector<bool> inside(static_cast<size_t>(topology.num_nodes()));
  for (const store::NodeId node : nodes) {
    inside[static_cast<size_t>(node)] = true;
  }
  return NeighborCacheLists(std::move(inside));
}

std::string DescribeNeighborCache(const SuperbatchOptions& options) {
  return absl::StrCat("neighbor cache of ", options.NeighborBytes(),
                      options.neighbor_rank == NeighborRank::kCross
                          ? " by cross counts"
                          : " by ratio");
}

}  // namespace hearth::strategy
