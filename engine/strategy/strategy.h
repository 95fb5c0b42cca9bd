#ifndef HEARTH_ENGINE_STRATEGY_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/pipeline/pipeline.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/strategy/batch_bound.h"
#include "engine/train/train_step.h"

namespace hearth::strategy {

/// Features and topology in memory: the reference for all others.
struct MemoryOptions {
  bool operator==(const MemoryOptions&) const = default;
};

/// Features and topology mapped from the dataset's files; the page cache
/// decides what stays (the PyG+ baseline of the Ginex paper, section 2.3).
struct MmapOptions {
  /// The kernel reads pages ahead, by as much as the disk is set to
  /// (read_ahead_kb), instead of single ones.
  bool read_ahead = false;

  bool operator==(const MmapOptions&) const = default;
};

/// GNNDrive (Jiang et al., 2024): asynchronous extraction into row slots.
struct GnndriveOptions {
  /// Rows kept beyond the reserved ones: the standby list (section 4.2).
  uint64_t cpu_cache_bytes = 0;
  /// Rows reserved for the batches in flight; 0 = those of the largest batch,
  /// found by a dry run of sampling, for each extractor. With less, fewer
  /// extractors run.
  uint64_t staging_bytes = 0;
  /// Batches are delivered as they become ready.
  bool reorder = false;
  /// Reads go through the page cache (section 4.4).
  bool buffered_reads = false;
  /// Batches that may wait for extraction, and for the trainer.
  int sample_queue = 6;
  int train_queue = 4;
  /// Reads that each extractor keeps in flight.
  int io_depth = 64;

  bool operator==(const GnndriveOptions&) const = default;
};

/// Ginex (Park et al., 2022): an optimal cache for each superbatch.
struct GinexOptions {
  /// Rows kept; while a superbatch is sampled, neighbor lists instead.
  uint64_t cpu_cache_bytes = 0;
  /// Neighbor lists kept; 0 = cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// Batches in a superbatch; 0 = by profile (section 3.5).
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const GinexOptions&) const = default;
};

/// DiskGNN (Liu et al., 2024): offline sampling, four levels of rows, packed
/// batches.
struct DiskgnnOptions {
  /// Rows kept in memory.
  uint64_t cpu_cache_bytes = 0;
  /// Rows kept on the GPU, more popular ones (section 4). Batches are then
  /// brought together there, too.
  uint64_t gpu_cache_bytes = 0;
  /// Rows of the segmented disk cache; absent = as many as the search finds;
  /// 0 = none, so that all are packed.
  std::optional<uint64_t> disk_cache_bytes = std::nullopt;
  /// All that the plan adds to the disk; 0 = no limit but the disk's.
  uint64_t disk_limit_bytes = 0;
  /// The same as a multiple of the features; 0 = none.
  double disk_limit_ratio = 0;
  /// Memory while preparing.
  uint64_t prepare_memory_bytes = uint64_t{1} << 30;
  /// Reads of the disk cache that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const DiskgnnOptions&) const = default;
};

/// One alternative per strategy, mirroring hearth.v1.DataSpec.strategy.
using StrategyOptions =
    std::variant<MemoryOptions, MmapOptions, GnndriveOptions, GinexOptions,
                 DiskgnnOptions>;

/// "memory", "mmap", "gnndrive", "ginex", "diskgnn".
std::string Name(const StrategyOptions& options);

/// Whether batches are delivered in the order of their numbers, so that those
/// of a pass that was stopped are its first ones.
bool DeliversInOrder(const StrategyOptions& options);

/// Threads of the pipeline's stages.
struct PipelineOptions {
  int samplers = 1;
  int extractors = 1;

  /// INVALID_ARGUMENT unless there is at least one of each.
  absl::Status Validate() const;

  bool operator==(const PipelineOptions&) const = default;
};

/// Batches to deliver: those of one epoch of one split.
struct Pass {
  /// Which seeds, in which order. Must outlive the pass.
  const sample::SeedOrder* order = nullptr;
  /// How their neighbors are drawn.
  sample::NeighborSamplerOptions sampler;
  int64_t batch_size = 0;
  /// Parts in which a batch is sampled and delivered, one for each trainer.
  /// Its seeds are cut into this many runs of nearly equal length, of which a
  /// short batch leaves some empty; a shard's samples are keyed by the whole
  /// batch, so that each node has the neighbors that the batch would give it.
  int64_t shards = 1;
  uint64_t epoch_key = 0;
  /// Batches before this one are skipped (a resumed epoch).
  int64_t first_batch = 0;
  /// How large batches are, where that is known; who must know measures them
  /// otherwise.
  std::optional<BatchBound> batches = std::nullopt;
};

/// Number of batches in a pass over `num_seeds` seeds, skipped ones included.
int64_t NumBatches(int64_t num_seeds, int64_t batch_size);

/// A GPU cache that lies in host memory, and whose work the CPU does: what
/// tests compare a GPU with.
struct GpuTwin {};

/// Where strategies keep the rows of a GPU cache; nowhere without a GPU.
using Gpu = std::variant<std::monostate, GpuTwin, cuda::Device>;

/// What strategies share with the daemon; all outlives them.
struct StrategyResources {
  io::ReadQueues& read_queues;
  const Clock& clock;
  /// Folder for files that go with the strategy; it may not be there yet.
  std::string scratch_folder;
  /// Of plans, which outlive jobs. Null: they are among the scratch files.
  plan::PlanStore* plans = nullptr;
  /// What those files are reached through.
  io::FileSystem& files = io::FileSystem::Posix();
  Gpu gpu = {};
};

/// Rows that one level of the cache held.
struct LevelHits {
  /// "gpu_cache", "cpu_cache".
  std::string level;
  int64_t rows = 0;
};

/// What a level of the feature store is expected to give in an epoch.
struct LevelForecast {
  /// "gpu_cache", "cpu_cache", "disk_cache", "packs".
  std::string level;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

/// Wall time of one of a strategy's own phases.
struct PhaseSeconds {
  std::string name;
  double seconds = 0;
};

/// What a pass cost. Optional figures are absent where they cannot be known.
struct PassReport {
  double seconds = 0;
  int64_t batches = 0;
  int64_t rows_needed = 0;
  int64_t bytes_needed = 0;
  std::optional<int64_t> bytes_read;
  std::optional<int64_t> read_ops;
  std::optional<double> io_wait_seconds;
  /// Rows read from storage; with `hits`, rows_needed in all.
  std::optional<int64_t> rows_read;
  /// By level, from the first one asked; empty without a cache.
  std::vector<LevelHits> hits;
  /// In a fixed order; they may overlap.
  std::vector<PhaseSeconds> phases;
  std::vector<pipeline::StageStats> stages;
};

/// One plan, found or made.
struct PreparationReport {
  /// Its name in the plan store; empty: there was nothing to prepare.
  std::string plan;
  /// Whether it was there.
  bool reused = false;
  /// Wall time of finding or making it; of the latter, by phase.
  double seconds = 0;
  std::vector<PhaseSeconds> phases;
  uint64_t disk_bytes = 0;
  /// For people: which layout was chosen, and why.
  std::string reason;
};

/// Hears how a preparation goes, on its thread. Either may be empty.
struct PreparationListener {
  /// In words for people: what was found, chosen and why.
  std::function<void(const std::string& text)> log;
  /// Units done and in all of a phase: "sampling", ...
  std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>
      progress;
};

/// Adds the figures of `part`, a later part of the same pass, to `whole`.
void Accumulate(const PassReport& part, PassReport& whole);

/// Delivers batches: samples them and brings their feature rows together. Made
/// for one job; holds what it keeps warm between passes. Single-owner.
class Strategy {
 public:
  /// Takes each batch in order, as its shards (Pass::shards of them, in order),
  /// on the thread that called Run; the views are valid during the call. A
  /// strategy that does not deliver in order (DeliversInOrder) gives as many
  /// shards at a time, each of them once, of whichever batches.
  using Consumer =
      std::function<absl::Status(absl::Span<const train::BatchView> shards)>;

  virtual ~Strategy() = default;

  /// Told before the first of some passes which they will be (each epoch key of
  /// training once, validation, test; `first_batch` 0), so that a strategy can
  /// prepare for them, which may take long; those of the call before are over.
  /// CANCELLED when `stop` was requested.
  virtual absl::StatusOr<PreparationReport> Prepare(
      absl::Span<const Pass> /*passes*/,
      const PreparationListener& /*listener*/, std::stop_token /*stop*/) {
    return PreparationReport();
  }

  /// Makes what Prepare for these passes will find, while others run. Called on
  /// a thread of its own, between two calls of Prepare, once at a time. Errors
  /// as those of Prepare.
  virtual absl::StatusOr<PreparationReport> PrepareAhead(
      absl::Span<const Pass> /*passes*/,
      const PreparationListener& /*listener*/, std::stop_token /*stop*/) {
    return PreparationReport();
  }

  /// Delivers all batches of `pass`. Returns the consumer's or the first
  /// stage's error; CANCELLED when `stop` was requested; FAILED_PRECONDITION
  /// for a pass that a strategy had to prepare for and did not. `report` is
  /// set, as far as the pass went, in any case; each call of the consumer finds
  /// in it the pass so far, its batch included.
  virtual absl::Status Run(const Pass& pass, const Consumer& consumer,
                           std::stop_token stop, PassReport& report) = 0;

  /// There is no pass to come for a while: gives back the memory that is not
  /// worth keeping (see MemoryShare::kept).
  virtual void Rest() = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_STRATEGY_H_
