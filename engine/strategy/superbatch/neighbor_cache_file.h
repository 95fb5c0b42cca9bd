#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_FILE_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_FILE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/store/stored_topology.h"

namespace hearth::strategy {

/// The neighbor cache, in memory while batches are sampled and in a file the
/// rest of the time, since the feature cache takes its memory (Ginex, section
/// 3.1, neighbor cache construction). Single-owner. Its file goes with it.
class NeighborCacheFile {
 public:
  /// Ranks lists by the cross counts of `ranking`, or, if that is null, by
  /// out-degree over in-degree; the name of the file, in `folder`, tells which.
  /// `files` and `topology` must outlive this.
  NeighborCacheFile(io::FileSystem& files,
                    const store::StoredTopology& topology,
                    const std::string& folder,
                    std::shared_ptr<const plan::Partition> ranking);
  NeighborCacheFile(const NeighborCacheFile&) = delete;
  NeighborCacheFile& operator=(const NeighborCacheFile&) = delete;
  ~NeighborCacheFile();

  /// Makes the cache, within the budget, and its file, the first time;
  /// afterwards it is in memory.
  absl::Status Prepare(uint64_t budget_bytes, std::stop_token stop);

  /// Brings the cache back from the file unless it is in memory. REQUIRES:
  /// prepared.
  absl::Status Load();

  /// Gives its memory back.
  void Unload();

  /// REQUIRES: it is in memory.
  const sample::NeighborCache& cache() const { return cache_; }

 private:
  absl::StatusOr<sample::NeighborCache> Build(uint64_t budget_bytes,
                                              std::stop_token stop) const;

  io::FileSystem& files_;
  const store::StoredTopology& topology_;
  const std::shared_ptr<const plan::Partition> ranking_;
  const std::string path_;
  sample::NeighborCache cache_;
  bool prepared_ = false;
  bool loaded_ = false;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_FILE_H_
