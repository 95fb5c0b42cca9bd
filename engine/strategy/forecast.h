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
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Forecast seconds of an epoch whose parts overlap, by what it waits for.
struct EpochSeconds {
  double read = 0;
  double train = 0;
  double compute = 0;

  /// The part that takes longest bounds them all.
  double all() const { return std::max({read, train, compute}); }

  /// Which one that is, for people.
  absl::string_view bound() const {
    if (read >= train && read >= compute) return "the disk";
    return train >= compute ? "the trainer" : "the processors";
  }
};

/// Rows that one level of the feature store is expected to give in an epoch.
struct LevelForecast {
  /// "gpu_cache", "cpu_cache", "disk_cache", "packs".
  std::string level;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

/// A strategy's work for some passes, told before it is done. Figures of
/// reading, disk and time are absent for strategies that cannot tell them.
struct Forecast {
  /// Feature rows that an epoch of training needs: the mean of its distinct
  /// passes.
  uint64_t rows_needed = 0;
  /// Where the epoch finds its rows, from the fastest level on.
  std::vector<LevelForecast> levels;
  /// Reads of the epoch from storage.
  std::optional<uint64_t> bytes_read;
  std::optional<uint64_t> read_ops;
  std::optional<double> epoch_seconds;
  /// Name of the plan, empty for a strategy without, and whether it is there.
  std::string plan;
  bool plan_exists = false;
  /// Bytes that the plan takes on disk, and seconds until it is made; 0 seconds
  /// if it is there.
  std::optional<uint64_t> disk_bytes;
  std::optional<double> prepare_seconds;
  /// Batches of all passes that were sampled for this, and how many there are.
  uint64_t sampled_batches = 0;
  uint64_t total_batches = 0;
  /// Sentences for people.
  std::vector<std::string> notes;
};

/// Everything that a forecast is made with; it outlives the call.
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
  /// A folder that is there; nothing is left in it.
  std::string scratch_folder;
  const PreparationListener& listener;
  std::stop_token stop;
  /// As StrategyResources::partition.
  std::shared_ptr<const plan::Partition> partition = nullptr;
};

/// The training that a forecast is for.
struct ForecastRequest {
  /// As for Strategy::Prepare; those of training come first. REQUIRES: one of
  /// training at least.
  absl::Span<const Pass> passes;
  size_t num_training = 0;
  /// Measures the seconds of a training step. Called once, before anything
  /// else, by strategies that tell times; not called by others.
  std::function<absl::StatusOr<double>()> time_training;
  /// Threads that a training step keeps busy.
  int train_threads = 1;
  /// Batches that are sampled, of more, evenly spread. REQUIRES: at least 1.
  int64_t most_batches = 512;
};

/// The forecast of strategies that cannot tell their reads: samples batches of
/// the training passes and counts their rows, in proportion to seeds, which is
/// exact if all batches are sampled. CANCELLED on a stop; errors of reading the
/// topology.
absl::StatusOr<Forecast> CountRows(const ForecastContext& context,
                                   const ForecastRequest& request);

/// Memory that CountRows holds at most.
MemoryEstimate EstimateCountingMemory(const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORECAST_H_
