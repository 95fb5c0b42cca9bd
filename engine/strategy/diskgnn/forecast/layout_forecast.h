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
#include "engine/strategy/diskgnn/packing/sample_spool.h"
#include "engine/strategy/diskgnn/preparation.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// The reads of a batch from the disk cache.
struct PageReads {
  int64_t rows = 0;
  /// With gaps that are read along.
  uint64_t bytes = 0;
  uint64_t requests = 0;

  void Add(const PageReads& other);
};

/// Plans the reads of the disk cache as a pass will (DiskCacheReader).
/// Single-owner.
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

/// The reads of each batch of a trace, in a layout with that segmentation,
/// whose segments are planned and ordered for it: one walk like those of the
/// search and of packing. Errors and memory as those of SegmentPlanner.
absl::StatusOr<std::vector<PageReads>> CountPageReads(
    const LayoutInput& input, const Segmentation& segmentation,
    const std::stop_token& stop);

/// The volume that an epoch of training takes from a plan: the mean of its
/// passes. Bytes
/// are those that are read, in pages.
struct EpochVolume {
  double rows = 0;
  double cpu_rows = 0;
  double disk_rows = 0;
  double packed_rows = 0;
  /// One read each a batch.
  double sample_bytes = 0;
  double table_bytes = 0;
  double packed_bytes = 0;
  double chunk_reads = 0;
  /// Reads of the disk cache.
  double page_bytes = 0;
  double page_reads = 0;
};

/// The volume of a plan on disk, in bytes but for `rows`, those of packs, disk
/// cache and memory. Samples are a part of the packs.
struct PlanVolume {
  double samples = 0;
  double packs = 0;
  double disk_cache = 0;
  double memory_image = 0;
  double rows = 0;
  double total = 0;
};

/// The batches of a trace.
struct TraceParts {
  /// [batches of the trace] seeds of those that belong to training; negative:
  /// of another pass.
  std::vector<int64_t> training_seeds;
  /// Seeds of one epoch.
  int64_t epoch_seeds = 0;
  /// Batches of the whole plan, of which the trace may be a part.
  int64_t total = 0;
};

/// Figures of a plan that is known; `pages` are counted in some batches of
/// training, and scaled to all of their rows.
EpochVolume VolumeOfEpoch(const PackedLayout& layout, const TraceParts& parts,
                          const PageReads& pages);
PlanVolume VolumeOfPlan(const PackedLayout& layout);

/// A layout that preparation would choose.
struct LayoutForecast {
  EpochVolume epoch;
  PlanVolume plan;
  int64_t segment_size = 0;
  /// Rows in memory and in the disk cache.
  int64_t memory_rows = 0;
  int64_t disk_cache_rows = 0;
  /// For people.
  std::string reason;
  /// Time that preparation will take for the choice, and for one more walk.
  double planning_seconds = 0;
  double walk_seconds = 0;
};

/// Everything that a forecast of a layout is made from; it outlives the call.
struct LayoutForecastInput {
  SampleSpool& samples;
  const TraceParts& parts;
  const DiskgnnOptions& options;
  int64_t row_bytes = 0;
  int64_t num_nodes = 0;
  /// As preparation has it.
  const LayoutRoom& room;
  const Clock& clock;
  std::stop_token stop;
};

/// Forecasts the layout. If the samples are those of all batches, it is made as
/// preparation makes it, so all figures but time are its own. If they are a
/// part:
///
/// * Rows and bytes of an epoch are those of the sampled training batches, in
///   proportion to seeds (a ratio estimate).
/// * Segments are counted in batches. The smallest ones that fit with all
///   batches are taken, by a PopularityModel: larger ones take less space but
///   read more (DiskGNN, section 5.1). They may have more batches than the
///   sample. The search runs on the sample, too, with limits that are scaled
///   down to be as tight: for the time that it takes.
/// * How rows share among memory, disk cache and packs is forecast by the
///   PopularityModel: each level's part of the training rows in the sample is
///   corrected by what the model says of all batches against the sample.
/// * Pages of the disk cache for each of its rows are as many as in segments of
///   the same size of the sample. For segments that are larger than it, they
///   grow with each doubling as they do from half of the sample to all of it,
///   up to the whole segment.
///
/// Errors as SearchLayout.
absl::StatusOr<LayoutForecast> ForecastLayout(const LayoutForecastInput& input);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_LAYOUT_FORECAST_H_
