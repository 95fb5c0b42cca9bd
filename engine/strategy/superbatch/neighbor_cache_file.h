#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_FILE_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_FILE_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/sample/neighbor_cache.h"

namespace hearth::strategy {

/// The neighbor cache, in memory while batches are sampled and in a file the
/// rest of the time, since the feature cache takes its memory (Ginex, section
/// 3.1, neighbor cache construction). Single-owner. Its file goes with it.
class NeighborCacheFile {
 public:
  /// `files` and `topology` must outlive this.
  NeighborCacheFile(io::FileSystem& files,
                    const sample::StoredTopology& topology, std::string path,
                    uint64_t budget_bytes);
  NeighborCacheFile(const NeighborCacheFile&) = delete;
  NeighborCacheFile& operator=(const NeighborCacheFile&) = delete;
  ~NeighborCacheFile();

  /// Makes the cache and its file, the first time; afterwards it is in memory.
  absl::Status Prepare(std::stop_token stop);

  /// Brings the cache back from the file unless it is in memory. REQUIRES:
  /// prepared.
  absl::Status Load();

  /// Gives its memory back.
  void Unload();

  /// REQUIRES: it is in memory.
  const sample::NeighborCache& cache() const { return cache_; }

 private:
  io::FileSystem& files_;
  const sample::StoredTopology& topology_;
  const std::string path_;
  const uint64_t budget_bytes_;
  sample::NeighborCache cache_;
  bool prepared_ = false;
  bool loaded_ = false;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_CACHE_FILE_H_
