#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_LISTS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_LISTS_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/row_reader.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/stored_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/superbatch_options.h"

/// Neighbor lists in memory while superbatches are sampled: the static neighbor
/// cache, its file, and which lists it holds; and the interface by which a
/// strategy adds lists for single batches (ListSource).

namespace hearth::strategy {

/// Neighbor lists for single batches, in addition to the neighbor cache, during
/// one run of sampling. Belongs to one thread, except Interrupt.
class ListFeed {
 public:
  virtual ~ListFeed() = default;

  /// The lists for batch `batch` of the pass; may be empty. Called for batches
  /// in order, and again for the same batch for each of its shards. Waits until
  /// earlier batches have released as much memory as the lists need. CANCELLED
  /// after Interrupt.
  virtual absl::StatusOr<sample::BatchLists> Take(int64_t batch) = 0;

  /// Makes a waiting Take return. Any thread may call it.
  virtual void Interrupt() = 0;

  /// Reads of lists so far.
  virtual const io::ReadTally& tally() const = 0;
};

/// Makes feeds, with a part of the neighbor budget that it takes from the
/// neighbor cache. Belongs to the strategy's thread.
class ListSource {
 public:
  virtual ~ListSource() = default;

  /// The level's name in PassReport::list_hits.
  virtual std::string level() const = 0;

  /// The bytes, at most `budget_bytes`, that the lists of batches may take,
  /// given the first passes to come. Called once, before NewFeed.
  virtual uint64_t Reserve(absl::Span<const Pass> passes, uint64_t budget_bytes,
                           const PreparationListener& listener) = 0;

  /// The feed for sampling batches of `pass`. Source and pass outlive the feed.
  /// All memory is released once the feed and the lists it gave are destroyed.
  virtual std::unique_ptr<ListFeed> NewFeed(const Pass& pass) = 0;
};

/// The neighbor cache: in memory while batches are sampled; in a file while
/// they are executed, since the feature cache takes its memory (Ginex, section
/// 3.1, neighbor cache construction). Removes its file when destroyed.
/// Single-owner.
class NeighborCacheFile {
 public:
  /// Ranks nodes by the cross counts of `ranking`, or, if null, by out-degree
  /// over in-degree. The file, in `folder`, has a name for each ranking.
  /// `files` and `topology` must outlive this.
  NeighborCacheFile(io::FileSystem& files,
                    const store::StoredTopology& topology,
                    const std::string& folder,
                    std::shared_ptr<const plan::Partition> ranking);
  NeighborCacheFile(const NeighborCacheFile&) = delete;
  NeighborCacheFile& operator=(const NeighborCacheFile&) = delete;
  ~NeighborCacheFile();

  /// Brings the cache into memory. The first call makes it, within the budget,
  /// and writes its file; later calls are Load.
  absl::Status Prepare(uint64_t budget_bytes, std::stop_token stop);

  /// Loads the cache from its file unless it is in memory. REQUIRES: Prepare
  /// succeeded.
  absl::Status Load();

  /// Releases the cache's memory.
  void Unload();

  /// REQUIRES: Prepare or Load succeeded since the last Unload.
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

/// The lists in the neighbor cache of a strategy with superbatches.
class NeighborCacheLists final : public ResidentLists {
 public:
  /// Chooses the lists as the strategy does, for a cache of `bytes`. Errors as
  /// NeighborCache::Choose and Dataset::OpenTopology.
  static absl::StatusOr<NeighborCacheLists> Find(
      NeighborRank rank, uint64_t bytes, const ResidentListsRequest& request);

  bool Has(int64_t /*batch*/, store::NodeId node) const override {
    return inside_[static_cast<size_t>(node)];
  }

 private:
  explicit NeighborCacheLists(std::vector<bool> inside)
      : inside_(std::move(inside)) {}

  // [num_nodes] whether the cache holds the node's list.
  std::vector<bool> inside_;
};

/// A text that two options share only if their neighbor caches hold the same
/// lists.
std::string DescribeNeighborCache(const SuperbatchOptions& options);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_LISTS_H_
