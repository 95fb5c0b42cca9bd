#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_LAYOUT_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_LAYOUT_FORECAST_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/read_plan.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/preparation.h"
#include "engine/strategy/packing/sample_spool.h"
#include "engine/strategy/strategy.h"

/// The layout that preparation would choose, and what an epoch would read of
/// it, from samples of all batches or of a part.

namespace hearth::strategy {

/// Reads of the disk cache, of one batch or of several.
struct PageReads {
  int64_t rows = 0;
  /// Bytes read, gaps between pages included.
  uint64_t bytes = 0;
  uint64_t requests = 0;

  void Add(const PageReads& other);
};

/// Plans reads of the disk cache as DiskCacheReader does. Single-owner.
class PageReadCounter {
 public:
  explicit PageReadCounter(int64_t row_bytes) : row_bytes_(row_bytes) {}

  /// The reads of a batch that needs `rows`, ascending, of the disk cache.
  absl::StatusOr<PageReads> Count(absl::Span<const int64_t> rows);

 private:
  const int64_t row_bytes_;
  std::vector<int64_t> pages_;
  io::ReadPlan plan_;
};

/// The reads of each batch of the trace under `segmentation`: plans and orders
/// the segments in one walk, as the search and packing do. Errors and memory as
/// SegmentPlanner.
absl::StatusOr<std::vector<PageReads>> CountPageReads(
    const LayoutInput& input, const Segmentation& segmentation,
    const std::stop_token& stop);

/// What a training epoch reads from a plan: the mean over the training passes.
/// Bytes are bytes read, in whole pages.
struct EpochVolume {
  double rows = 0;
  double cpu_rows = 0;
  double disk_rows = 0;
  double packed_rows = 0;
  /// Read by one sequential read each for every batch.
  double sample_bytes = 0;
  double table_bytes = 0;
  double packed_bytes = 0;
  double chunk_reads = 0;
  /// Bytes and requests of reads of the disk cache.
  double page_bytes = 0;
  double page_reads = 0;
};

/// The size of a plan on disk, in bytes. `samples` is a part of `packs`; `rows`
/// is the number of rows in packs, disk cache and memory levels.
struct PlanSize {
  double samples = 0;
  double packs = 0;
  double disk_cache = 0;
  double memory_image = 0;
  double rows = 0;
  double total = 0;
};

/// Which batches of a trace belong to training.
struct TraceParts {
  /// [batches of the trace] seeds of a training batch; negative for a batch of
  /// another pass.
  std::vector<int64_t> training_seeds;
  /// Seeds of one training epoch.
  int64_t epoch_seeds = 0;
  /// Batches of the whole plan; the trace may have only some of them.
  int64_t total = 0;
};

/// Figures of an existing plan. `pages`, counted in some training batches, are
/// scaled to all their rows of the disk cache.
EpochVolume VolumeOfEpoch(const PackedLayout& layout, const TraceParts& parts,
                          const PageReads& pages);
PlanSize SizeOfPlan(const PackedLayout& layout);

/// The layout that preparation would choose.
struct LayoutForecast {
  EpochVolume epoch;
  PlanSize plan;
  int64_t segment_size = 0;
  /// Rows in the memory levels, and in the disk cache.
  int64_t memory_rows = 0;
  int64_t disk_cache_rows = 0;
  /// For people: the choice and its reason.
  std::string reason;
  /// Seconds of choosing the layout, and of one more walk over the trace.
  double planning_seconds = 0;
  double walk_seconds = 0;
};

/// Everything that a layout is forecast from. Outlives the call.
struct LayoutForecastInput {
  SampleSpool& samples;
  const TraceParts& parts;
  const DiskgnnOptions& options;
  int64_t row_bytes = 0;
  int64_t num_nodes = 0;
  /// As preparation computes it (BudgetForLayout).
  const LayoutBudget& budget;
  const Clock& clock;
  std::stop_token stop;
};

/// Forecasts the layout. With samples of all batches, it is chosen as
/// preparation chooses it, so that all figures but times are exact. With
/// samples of a part of the batches:
///
/// * Rows and bytes of an epoch are those of the sampled training batches,
///   scaled to the seeds of an epoch (a ratio estimate).
/// * The segment size is the smallest that fits with all batches by a
///   PopularityModel, since larger segments take less space but read more
///   (DiskGNN, section 5.1); it may be larger than the sample. The search also
///   runs on the sample, with limits scaled down to be as tight, to measure its
///   time.
/// * The shares of memory, disk cache and packs come from the PopularityModel:
///   each level's share of the sample's training rows is multiplied by the
///   model's ratio of all batches to the sample.
/// * Pages read for each row of the disk cache are counted in segments of the
///   same size of the sample. For segments larger than the sample, they grow
///   with each doubling of the size as they do from half of the sample to all
///   of it, up to the whole segment.
///
/// Errors as SearchLayout.
absl::StatusOr<LayoutForecast> ForecastLayout(const LayoutForecastInput& input);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_LAYOUT_FORECAST_H_
