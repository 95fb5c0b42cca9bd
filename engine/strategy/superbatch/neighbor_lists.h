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

namespace hearth::strategy {

/// Gives the batches of a run of sampling, in their order, the lists that they
/// hold beside the neighbor cache. Belongs to one thread, but for Interrupt.
class ListFeed {
 public:
  virtual ~ListFeed() = default;

  /// Those of batch `batch` of the pass; none, where there are none for it. The
  /// one before, or the same, was asked for last. Waits until batches before
  /// have given back what there is no room for besides. CANCELLED after
  /// Interrupt.
  virtual absl::StatusOr<sample::BatchLists> Take(int64_t batch) = 0;

  /// Makes Take return soon. Any thread may call it.
  virtual void Interrupt() = 0;

  /// The tally of what was read for it.
  virtual const io::ReadTally& tally() const = 0;
};

/// A part of the neighbor budget that single batches use, because it is known
/// which batches come, and that the neighbor cache does without. Belongs to the
/// strategy's thread.
class ListSource {
 public:
  virtual ~ListSource() = default;

  /// The level's name in PassReport::list_hits.
  virtual std::string level() const = 0;

  /// Chooses how many bytes of lists batches hold at most, of `budget_bytes`,
  /// given the first passes that there will be. Called once, first.
  virtual uint64_t Reserve(absl::Span<const Pass> passes, uint64_t budget_bytes,
                           const PreparationListener& listener) = 0;

  /// For sampling batches of `pass`, which outlives it, as this does. Nothing
  /// is held any more once the feed, and what it gave, are gone.
  virtual std::unique_ptr<ListFeed> NewFeed(const Pass& pass) = 0;
};

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

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_NEIGHBOR_LISTS_H_
