#include "engine/strategy/superbatch/neighbor_lists.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"

namespace hearth::strategy {

NeighborCacheFile::NeighborCacheFile(
    io::FileSystem& files, const store::StoredTopology& topology,
    const std::string& folder, std::shared_ptr<const plan::Partition> ranking)
    : files_(files),
      topology_(topology),
      ranking_(std::move(ranking)),
      path_(io::JoinPath(folder, ranking_ == nullptr
                                     ? "neighbor_cache"
                                     : "neighbor_cache.cross")) {}

NeighborCacheFile::~NeighborCacheFile() {
  // A destructor has nobody to report to.
  if (prepared_) files_.RemoveTree(path_).IgnoreError();
}

absl::Status NeighborCacheFile::Prepare(uint64_t budget_bytes,
                                        std::stop_token stop) {
  if (prepared_) return Load();
  HEARTH_ASSIGN_OR_RETURN(sample::NeighborCache built,
                          Build(budget_bytes, std::move(stop)));
  HEARTH_RETURN_IF_ERROR(built.Dump(files_, path_));
  cache_ = std::move(built);
  prepared_ = true;
  loaded_ = true;
  return absl::OkStatus();
}

absl::StatusOr<sample::NeighborCache> NeighborCacheFile::Build(
    uint64_t budget_bytes, std::stop_token stop) const {
  std::vector<uint32_t> cross_counts;
  if (ranking_ != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(cross_counts, ranking_->LoadCrossCounts());
  }
  return sample::NeighborCache::Build(
      files_, topology_,
      {.budget_bytes = budget_bytes, .cross_counts = cross_counts},
      std::move(stop));
}

absl::Status NeighborCacheFile::Load() {
  if (loaded_) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(cache_, sample::NeighborCache::Load(files_, path_));
  loaded_ = true;
  return absl::OkStatus();
}

void NeighborCacheFile::Unload() {
  cache_ = sample::NeighborCache();
  loaded_ = false;
}

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
