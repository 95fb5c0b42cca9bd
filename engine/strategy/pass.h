#ifndef HEARTH_ENGINE_STRATEGY_PASS_H_
#define HEARTH_ENGINE_STRATEGY_PASS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"

namespace hearth::strategy {

/// How large batches are; those that come in several shards, each shard.
struct BatchBound {
  /// Layer by layer, the largest that were sampled.
  sample::BatchShape largest;
  /// Room for any batch, as far as those that were sampled tell
  /// (BatchSpread::Likely).
  sample::BatchShape likely;
  /// No batch of these fan-outs and this batch size is larger, in any epoch.
  sample::BatchShape bound;

  /// Room for any batch, as far as can be told: `likely`, but no more than the
  /// bound. REQUIRES: as many layers in both.
  sample::BatchShape WithMargin() const;

  bool operator==(const BatchBound&) const = default;
};

/// How the sizes of the batches of a pass are spread, from some of them.
class BatchSpread {
 public:
  /// Adds a batch; those with fewer than `most_seeds`, which a pass ends with,
  /// count for the largest alone.
  void Add(const sample::BatchShape& batch, int64_t most_seeds);

  const sample::BatchShape& largest() const { return largest_; }

  /// Another epoch's batches may be larger than those that were added: an
  /// eighth above the largest, or, where that is less and enough were added,
  /// eight standard deviations above the mean, since a size is the sum of what
  /// many seeds add to it. Each number by itself; none below the largest.
  sample::BatchShape Likely() const;

 private:
  // Sums over batches of one of the numbers of a shape.
  struct Sums {
    double sum = 0;
    double of_squares = 0;
  };

  sample::BatchShape largest_;
  int64_t count_ = 0;
  // In the order of sample::ForEachNumber.
  std::vector<Sums> sums_;
};

/// Threads of the pipeline's stages, and what samples.
struct PipelineOptions {
  int samplers = 1;
  int extractors = 1;
  /// The number of the GPU that samples batches; absent: the processor does.
  /// The batches are the same. For strategies with StrategyKind::samples_on_gpu
  /// alone, and not layer by layer.
  std::optional<int> sampling_gpu = {};

  /// INVALID_ARGUMENT unless there is at least one of each.
  absl::Status Validate() const;

  bool operator==(const PipelineOptions&) const = default;
};

/// Batches to deliver: those of one epoch of one split.
struct Pass {
  /// The seeds, in their order. Must outlive the pass.
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
  /// How large batches are: whoever makes the pass measures them
  /// (largest_batch.h), or bounds them by the fan-outs.
  BatchBound batches = {};
  /// Which embeddings come from earlier batches; null = none. Must outlive the
  /// pass. REQUIRES: two fan-outs or more, and a strategy that delivers in
  /// order.
  const sample::HistoryPolicy* history = nullptr;
  /// Whether all that take the batches train on the GPU that keeps rows
  /// (StrategyResources::gpu), so that a strategy may leave the input rows
  /// there (train::BatchView::device_rows).
  bool rows_on_gpu = false;
};

/// The sampler as a plan's property: "fan-outs" or "nodes per layer", and
/// which.
std::pair<std::string, std::string> DescribeSampler(
    const sample::NeighborSamplerOptions& sampler);

/// Number of batches in a pass over `num_seeds` seeds, skipped ones included.
int64_t NumBatches(int64_t num_seeds, int64_t batch_size);

/// Rows that one level of the cache held.
struct LevelHits {
  /// "gpu_cache", "cpu_cache".
  std::string level;
  int64_t rows = 0;
};

/// Neighbor lists that one neighbor cache held.
struct ListHits {
  /// "neighbor_cache", "dynamic_neighbor_cache".
  std::string level;
  int64_t lists = 0;
};

/// How the reads of several batches overlapped (GIDS, section 3.2).
struct ReadOverlap {
  /// How rows are read: "io_uring, host-initiated".
  std::string storage_path = {};
  /// Reads that were to be under way at any time, and that the queue holds.
  int64_t target_reads = 0;
  int64_t depth = 0;
  /// Batches that were read; shards count as batches.
  int64_t batches = 0;
  /// Batches being read as each joined them, itself included, added up.
  int64_t merged = 0;
  /// Batches that joined later than `target_reads` asks for, since as many as
  /// are allowed were being read, or their rows had no room.
  int64_t held_by_merge_max = 0;
  int64_t held_by_staging = 0;
  /// Rows that were read and not kept, since all lines of the window cache held
  /// rows for later batches.
  int64_t bypassed = 0;
};

/// Wall time of one of a strategy's own phases.
struct PhaseSeconds {
  std::string name;
  double seconds = 0;
};

/// The cost of a pass. Optional figures are absent where they cannot be known.
struct PassReport {
  double seconds = 0;
  int64_t batches = 0;
  /// Seeds of the batches; rows_needed by seeds is the redundancy ratio (OUTRE,
  /// section 3.1).
  int64_t seeds = 0;
  int64_t rows_needed = 0;
  int64_t bytes_needed = 0;
  std::optional<int64_t> bytes_read;
  std::optional<int64_t> read_ops;
  std::optional<double> io_wait_seconds;
  /// Rows read from storage; with `hits`, rows_needed in all.
  std::optional<int64_t> rows_read;
  /// By level, from the first one asked; empty without a cache.
  std::vector<LevelHits> hits;
  /// Embeddings of earlier batches that batches used, and embeddings kept for
  /// later ones (Pass::history); the batches in between, added up over those
  /// used.
  int64_t pulled = 0;
  int64_t pushed = 0;
  int64_t total_age = 0;
  /// Neighbor lists that a batch drew from and that memory held, each once for
  /// each layer of each batch, by neighbor cache, from the first one asked; and
  /// those of which neighbors had to be read from storage. Empty, and absent,
  /// where neighbors are not read like that.
  std::vector<ListHits> list_hits;
  std::optional<int64_t> lists_read;
  /// Absent where each batch is read for itself.
  std::optional<ReadOverlap> overlap;
  /// In a fixed order; they may overlap.
  std::vector<PhaseSeconds> phases;
  std::vector<pipeline::StageStats> stages;
};

/// Adds the figures of `part`, a later part of the same pass, to `whole`.
void Accumulate(const PassReport& part, PassReport& whole);

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PASS_H_
