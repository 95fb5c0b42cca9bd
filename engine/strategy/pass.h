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
#include "engine/sample/seed_requests.h"
#include "engine/sample/shard_window.h"

namespace hearth::train {
class InputPool;
}  // namespace hearth::train

/// What strategies are asked for and what they report: a pass over the batches
/// of one epoch (Pass), how large its batches are (BatchBound, BatchSpread),
/// and what it cost (PassReport, PreparationReport). Plain data, owned by
/// whoever holds it.

namespace hearth::strategy {

/// How large the batches of a pass are; where a batch comes in several shards,
/// how large each shard is.
struct BatchBound {
  /// The largest number, layer by layer, over all batches that were sampled.
  sample::BatchShape largest;
  /// Sizes that hold nearly any batch, extrapolated from the sampled batches
  /// (BatchSpread::Likely).
  sample::BatchShape likely;
  /// Upper bound from fan-outs and batch size: no batch of any epoch is larger.
  sample::BatchShape bound;

  /// Sizes to reserve memory for: `likely`, but no more than `bound`. REQUIRES:
  /// as many layers in both.
  sample::BatchShape WithMargin() const;

  bool operator==(const BatchBound&) const = default;
};

/// Statistics of batch sizes, from some of the batches of a pass.
class BatchSpread {
 public:
  /// Adds a batch. A batch with fewer than `most_seeds` seeds, as passes end
  /// with, counts for the largest alone.
  void Add(const sample::BatchShape& batch, int64_t most_seeds);

  const sample::BatchShape& largest() const { return largest_; }

  /// Sizes with a margin, since batches of other epochs may be larger than the
  /// added ones: an eighth above the largest, or, where that is less and at
  /// least 30 batches were added, eight standard deviations above the mean (a
  /// size is a sum over many seeds). Each number by itself; none below the
  /// largest.
  sample::BatchShape Likely() const;

 private:
  // Sums of one of a shape's numbers, over batches.
  struct Sums {
    double sum = 0;
    double of_squares = 0;
  };

  sample::BatchShape largest_;
  int64_t count_ = 0;
  // One for each number of a shape, in the order of sample::ForEachNumber.
  std::vector<Sums> sums_;
};

/// Where neighbor lists are while batches are sampled on the CPU. No place
/// changes a batch.
enum class TopologyPlace {
  /// As the strategy puts them; slab by slab where batches are sampled
  /// beforehand and the topology takes most of the memory (WithAutoTopology).
  kAuto,
  kMemory,
  /// In mapped files; the page cache decides what stays.
  kMapped,
  /// On disk, read slab by slab for all batches (sample::SampleInSlabs).
  kSlabs,
};

/// Threads of the pipeline's stages, the device that samples, and the place of
/// what it samples from.
struct PipelineOptions {
  int samplers = 1;
  int extractors = 1;
  /// The number of the GPU that samples batches; absent: the CPU does. The
  /// batches are the same. Only for strategies with
  /// StrategyKind::samples_on_gpu, and neither for layer-wise sampling nor
  /// where each node draws once.
  std::optional<int> sampling_gpu = {};
  /// REQUIRES: CheckTopology (kinds.h).
  TopologyPlace topology = TopologyPlace::kAuto;

  /// INVALID_ARGUMENT unless there is at least one sampler and one extractor.
  absl::Status Validate() const;

  bool operator==(const PipelineOptions&) const = default;
};

/// Batches to deliver: all batches of one epoch of one split, from
/// `first_batch` on.
struct Pass {
  /// The order of the seeds. Must outlive the pass. Not looked at where there
  /// are requests.
  const sample::SeedOrder* order = nullptr;
  /// How neighbors are drawn.
  sample::NeighborSamplerOptions sampler;
  int64_t batch_size = 0;
  /// Number of shards in which a batch is sampled and delivered, one for each
  /// trainer. The batch's seeds are cut into this many runs of nearly equal
  /// length; a short batch leaves some of them empty. Shards are sampled by the
  /// key of the whole batch, so that each node has the neighbors that it would
  /// have in the undivided batch; where each node draws once, the neighbors of
  /// the layer in which the shard meets it.
  int64_t shards = 1;
  uint64_t epoch_key = 0;
  /// Which shards of each batch these are, where several machines share it. All
  /// other machines' passes are equal but for this.
  sample::ShardWindow window = {};
  /// Batches before this one are skipped, as in a resumed epoch.
  int64_t first_batch = 0;
  /// The seeds of each batch, each delivered as soon as it is asked for, until
  /// the requests end; null = `order` has the seeds. Must outlive the pass.
  /// REQUIRES: a strategy with StrategyKind::takes_requests that delivers in
  /// order, one shard, no history, at most `batch_size` seeds a batch.
  sample::SeedRequests* requests = nullptr;
  /// Whether results are measured on the batches, not trained on: of validation
  /// and test. They are those of `memory` in every strategy, even where
  /// training is not exact (StrategyKind::exact).
  bool evaluates = false;
  /// How large batches are. The maker of the pass measures them (MeasureBatches
  /// in sampling.h), or bounds them by the fan-outs.
  BatchBound batches = {};
  /// Decides which embeddings come from earlier batches; null = none do. Must
  /// outlive the pass. REQUIRES: two fan-outs or more, and a strategy that
  /// delivers in order.
  const sample::HistoryPolicy* history = nullptr;
  /// Whether all models that take the batches train on the GPU that keeps rows
  /// (StrategyResources::gpu), so that a strategy may leave the input rows
  /// there (train::BatchView::device_rows).
  bool rows_on_gpu = false;
  /// Whether all models that take the batches compute on the processor and
  /// would rather read the input rows where they lie, so that a strategy may
  /// leave them there (train::BatchView::rows).
  bool rows_in_place = false;
  /// One pool for each shard of a batch, which lends the memory of its input
  /// rows (train::BatchView::input_memory); empty: the strategy's own memory is
  /// used. Pools outlive the pass. REQUIRES: neither rows_on_gpu nor
  /// rows_in_place.
  std::vector<train::InputPool*> input_pools = {};
};

/// The sampler as a plan's property: the name, "fan-outs" or "nodes per layer",
/// and the numbers, with a note where each node draws once. Keys of plans have
/// it, too.
std::pair<std::string, std::string> DescribeSampler(
    const sample::NeighborSamplerOptions& sampler);

/// Number of batches in a pass over `num_seeds` seeds, skipped ones included.
int64_t NumBatches(int64_t num_seeds, int64_t batch_size);

/// Number of batches of `pass`, skipped ones included; kUnbounded with
/// requests.
int64_t NumBatches(const Pass& pass);
/// Larger than any number of a batch; sums with one do not overflow.
inline constexpr int64_t kUnbounded = int64_t{1} << 60;

/// Rows found in one level of the cache.
struct LevelHits {
  /// "gpu_cache", "cpu_cache".
  std::string level;
  int64_t rows = 0;
};

/// Neighbor lists found in one neighbor cache.
struct ListHits {
  /// "neighbor_cache", "dynamic_neighbor_cache".
  std::string level;
  int64_t lists = 0;
};

/// How the reads of several batches overlapped (GIDS, section 3.2).
struct ReadOverlap {
  /// How rows are read, for people: "io_uring, host-initiated".
  std::string storage_path = {};
  /// Reads to keep under way at any time, and reads that the queue holds.
  int64_t target_reads = 0;
  int64_t depth = 0;
  /// Batches that were read; each shard counts as one.
  int64_t batches = 0;
  /// Sum over batches of how many batches were being read when the batch
  /// joined, itself included.
  int64_t merged = 0;
  /// Batches that joined later than `target_reads` asks for: because as many
  /// batches as are allowed were being read, or because staging memory had no
  /// space for their rows.
  int64_t held_by_merge_max = 0;
  int64_t held_by_staging = 0;
  /// Rows that were read and not kept: all lines of the window cache held rows
  /// for later batches.
  int64_t bypassed = 0;
};

/// Wall time of one phase of a strategy.
struct PhaseSeconds {
  std::string name;
  double seconds = 0;
};

/// The cost of a pass. An optional figure is absent where it cannot be known.
struct PassReport {
  double seconds = 0;
  int64_t batches = 0;
  /// Seeds of the batches; rows_needed / seeds is the redundancy ratio (OUTRE,
  /// section 3.1).
  int64_t seeds = 0;
  int64_t rows_needed = 0;
  int64_t bytes_needed = 0;
  std::optional<int64_t> bytes_read;
  std::optional<int64_t> read_ops;
  std::optional<double> io_wait_seconds;
  /// Rows read from storage; with `hits`, rows_needed in all.
  std::optional<int64_t> rows_read;
  /// Rows found by cache level, in the order in which levels are asked; empty
  /// without a cache.
  std::vector<LevelHits> hits;
  /// With a history (Pass::history): embeddings of earlier batches that batches
  /// used (pulled), embeddings kept for later batches (pushed), and the ages of
  /// the pulled ones, in batches, added up.
  int64_t pulled = 0;
  int64_t pushed = 0;
  int64_t sum_of_ages = 0;
  /// Neighbor lists that batches drew from, each counted once for each layer of
  /// each batch: `list_hits` by the neighbor cache that held them, in the order
  /// in which caches are asked; `lists_read` those with neighbors read from
  /// storage. Empty, and absent, where neighbors are not read one by one.
  std::vector<ListHits> list_hits;
  std::optional<int64_t> lists_read;
  /// Absent where the reads of batches do not overlap.
  std::optional<ReadOverlap> overlap;
  /// In a fixed order for each strategy; phases may overlap in time.
  std::vector<PhaseSeconds> phases;
  std::vector<pipeline::StageStats> stages;
};

/// Adds the figures of `part`, a later part of the same pass, to `whole`; does
/// nothing for a part without batches.
void Accumulate(const PassReport& part, PassReport& whole);

/// Pieces that other processes are to make before a plan is joined from them.
struct PiecesToMake {
  /// Path of the file that says how they are made.
  std::string plan;
  /// Pieces in all, and those that are missing or damaged.
  int64_t pieces = 0;
  int64_t missing = 0;
  /// The first of these, and why.
  std::string fault;
};

/// One plan, found or made.
struct PreparationReport {
  /// The plan's name in the plan store; empty: there was nothing to prepare.
  std::string plan;
  /// Whether the plan was found, rather than made.
  bool reused = false;
  /// Wall time of finding or making the plan; when it was made, also by phase.
  double seconds = 0;
  std::vector<PhaseSeconds> phases;
  uint64_t disk_bytes = 0;
  /// For people: which layout was chosen, and why.
  std::string reason;
  /// What keeps the plan from being made yet; absent if it is made.
  std::optional<PiecesToMake> to_make = std::nullopt;
  /// Whether PrepareAhead has more to make
  /// (StrategyKind::prepares_throughout).
  bool more = false;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PASS_H_
