#ifndef HEARTH_ENGINE_JOB_MEMORY_WARM_STRATEGIES_H_
#define HEARTH_ENGINE_JOB_MEMORY_WARM_STRATEGIES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/file_system.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/plan_store.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/pass.h"

namespace hearth::job {

/// The key of a strategy. Jobs with equal keys read equal datasets in the same
/// way, in batches of equal bounds, so that they may use each other's strategy.
struct StrategyKey {
  std::string dataset_path;
  std::string fingerprint;
  strategy::StrategyOptions strategy;
  strategy::PipelineOptions pipeline;
  strategy::BatchBound batches;
  /// Name of the partition that orders seeds; empty if they are shuffled.
  std::string partition = {};
  /// Number of the node type whose labels are predicted.
  size_t target_type = 0;
  /// OwnNodes::Name of the seeds.
  std::string own_nodes = {};
  /// Type of the rows, if they are not as they are stored.
  std::optional<store::DType> row_dtype = {};

  bool operator==(const StrategyKey&) const = default;
};

/// A folder that is removed when this object is destroyed. Move-only.
class ScratchFolder {
 public:
  ScratchFolder(io::FileSystem& files, std::string path)
      : files_(&files), path_(std::move(path)) {}
  ScratchFolder(ScratchFolder&& other) noexcept
      : files_(other.files_), path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&& other) noexcept;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  io::FileSystem* files_;
  // Empty: nothing to remove.
  std::string path_;
};

/// A strategy with everything it uses. Later members use earlier ones.
struct WarmStrategy {
  MemoryLedger::Reservation memory;
  std::unique_ptr<store::Dataset> dataset;
  ScratchFolder scratch;
  std::unique_ptr<strategy::Strategy> strategy;
  /// Whether the strategy checks each row that it reads.
  bool checks_rows = false;
};

/// Strategies of jobs that have ended, with their topologies and caches, for
/// later jobs with equal keys. Frees them when the ledger asks. Thread-safe.
class WarmStrategies {
 public:
  /// Maximum number of strategies kept; the oldest is freed first.
  static constexpr size_t kMaxStrategies = 8;

  /// Scratch folders of strategies are made in the folder `scratch_path`, which
  /// is made when needed. All arguments outlive this.
  WarmStrategies(io::FileSystem& files, MemoryLedger& ledger,
                 std::string scratch_path);
  ~WarmStrategies();
  WarmStrategies(const WarmStrategies&) = delete;
  WarmStrategies& operator=(const WarmStrategies&) = delete;

  /// Makes a scratch folder that no other strategy uses.
  absl::StatusOr<ScratchFolder> NewScratch() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes the strategy that was kept last for this key, if any. Its memory
  /// rests in the ledger until it is reserved again.
  std::optional<WarmStrategy> Take(const StrategyKey& key)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Keeps a strategy that is no longer used. `rows` is the lease of a plan
  /// that its dataset reads: while the strategy is kept, the plan may be
  /// removed, and the strategy is freed with it.
  void Keep(StrategyKey key, WarmStrategy strategy,
            std::optional<plan::PlanLease> rows = {})
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Frees the strategies of a dataset, whose files are to be removed.
  void Forget(const std::string& dataset_path) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    StrategyKey key;
    // Without dataset and strategy if `rows` has them.
    WarmStrategy strategy;
    // Rests, and keeps a Reader open.
    std::optional<plan::PlanLease> rows;
  };

  bool GiveUpOldest() ABSL_LOCKS_EXCLUDED(mutex_);

  io::FileSystem& files_;
  MemoryLedger& ledger_;
  const std::string scratch_path_;
  absl::Mutex mutex_;
  uint64_t next_scratch_ ABSL_GUARDED_BY(mutex_) = 0;
  // Oldest first.
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_WARM_STRATEGIES_H_
