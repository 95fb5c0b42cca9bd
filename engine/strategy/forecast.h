#ifndef HEARTH_ENGINE_STRATEGY_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_FORECAST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/machine/disk_profile.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pass_sequence.h"
#include "engine/strategy/strategy.h"

/// Types of forecasts, and the forecast of strategies that can only count the
/// rows they need (CountRows).

namespace hearth::strategy {

/// Seconds of an epoch whose parts overlap, by resource.
struct EpochSeconds {
  double read = 0;
  double train = 0;
  double compute = 0;

  /// Seconds of the whole epoch: the part that takes longest bounds it.
  double all() const { return std::max({read, train, compute}); }

  /// The resource that bounds the epoch, for people.
  absl::string_view bound() const {
    if (read >= train && read >= compute) return "the disk";
    return train >= compute ? "the trainer" : "the processors";
  }
};

/// Rows that an epoch is expected to find in one level of the feature store.
struct LevelForecast {
  /// "gpu_cache", "cpu_cache", "disk_cache", "packs".
  std::string level;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

/// The work of a strategy for some passes, computed before it is done. Figures
/// of reading, disk and time are absent for strategies that cannot forecast
/// them.
struct Forecast {
  /// Feature rows that an epoch of training needs: the mean over the distinct
  /// training passes.
  uint64_t rows_needed = 0;
  /// Where the epoch finds its rows, the fastest level first.
  std::vector<LevelForecast> levels;
  /// Reads of the epoch from storage.
  std::optional<uint64_t> bytes_read;
  std::optional<uint64_t> read_ops;
  /// Of a later epoch, and of the first where it differs.
  std::optional<double> epoch_seconds;
  std::optional<double> first_epoch_seconds;
  /// The plan's name, empty for a strategy without plans, and whether the plan
  /// exists.
  std::string plan;
  bool plan_exists = false;
  /// Bytes of the plan on disk, and seconds to make it, 0 if it exists, or to
  /// load what the strategy has in memory.
  std::optional<uint64_t> disk_bytes;
  std::optional<double> prepare_seconds;
  /// Batches that were sampled for the forecast, and batches of all passes.
  uint64_t sampled_batches = 0;
  uint64_t total_batches = 0;
  /// Sentences for people.
  std::vector<std::string> notes;
};

/// Everything that a forecast is made with. Outlives the call.
struct ForecastContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  io::FileSystem& files;
  io::ReadQueues& read_queues;
  const Clock& clock;
  const PipelineOptions& pipeline;
  plan::PlanStore& plans;
  /// As StrategyResources::data_disks.
  absl::Span<plan::PlanStore* const> data_disks = {};
  /// An existing folder; a forecast leaves nothing in it.
  std::string scratch_folder;
  const PreparationListener& listener;
  std::stop_token stop;
  /// As StrategyResources::partition.
  std::shared_ptr<const plan::Partition> partition = nullptr;
  /// The rates of the disk of the features, for strategies whose times follow
  /// from their price (PriceOf in kinds.h); null: they have none.
  const machine::DiskProfile* disk = nullptr;
};

/// The training that a forecast is for.
struct ForecastRequest {
  /// As for Strategy::Prepare, the `num_training` training passes first.
  /// REQUIRES: at least one of these.
  absl::Span<const Pass> passes;
  size_t num_training = 0;
  /// All passes of the job in their order, for strategies that prepare for them
  /// throughout; null: they count rows only.
  const PassSequence* sequence = nullptr;
  /// Measures the seconds of a training step. Strategies that forecast times
  /// call it once, before anything else; others do not.
  std::function<absl::StatusOr<double>()> time_training;
  /// Threads that a training step keeps busy.
  int train_threads = 1;
  /// The most batches to sample, spread evenly over all. REQUIRES: at least 1.
  int64_t most_batches = 512;
};

/// The forecast of strategies that cannot forecast reads: samples batches of
/// the training passes and scales their rows to an epoch's seeds; exact if all
/// batches are sampled. CANCELLED on a stop; errors of reading the topology.
absl::StatusOr<Forecast> CountRows(const ForecastContext& context,
                                   const ForecastRequest& request);

/// Memory that CountRows holds at most.
MemoryEstimate EstimateCountingMemory(const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORECAST_H_
