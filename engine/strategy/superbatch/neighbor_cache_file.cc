#include "engine/strategy/superbatch/neighbor_cache_file.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace hearth::strategy {

NeighborCacheFile::NeighborCacheFile(io::FileSystem& files,
                                     const sample::StoredTopology& topology,
                                     std::string path, uint64_t budget_bytes)
    : files_(files),
      topology_(topology),
      path_(std::move(path)),
      budget_bytes_(budget_bytes) {}

NeighborCacheFile::~NeighborCacheFile() {
  // Nobody is left to be told.
  if (prepared_) files_.RemoveTree(path_).IgnoreError();
}

absl::Status NeighborCacheFile::Prepare(std::stop_token stop) {
  if (prepared_) return Load();
  HEARTH_ASSIGN_OR_RETURN(
      sample::NeighborCache built,
      sample::NeighborCache::Build(files_, topology_, budget_bytes_,
                                   std::move(stop)));
  HEARTH_RETURN_IF_ERROR(built.Dump(files_, path_));
  cache_ = std::move(built);
  prepared_ = true;
  loaded_ = true;
  return absl::OkStatus();
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

}  // namespace hearth::strategy
