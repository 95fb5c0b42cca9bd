#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// What DiskGNN is going to do with some passes, before it does.
struct DiskgnnForecast {
  /// Of an epoch of training, the mean of its distinct passes.
  uint64_t rows_needed = 0;
  std::vector<LevelForecast> levels;
  uint64_t bytes_read = 0;
  uint64_t read_ops = 0;
  double epoch_seconds = 0;
  /// Of the plan.
  std::string plan;
  bool plan_exists = false;
  uint64_t disk_bytes = 0;
  double prepare_seconds = 0;
  /// Batches of all passes.
  uint64_t sampled_batches = 0;
  uint64_t total_batches = 0;
  /// For people.
  std::vector<std::string> notes;
};

/// What a forecast is made with. All of it outlives the call.
struct ForecastContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  io::FileSystem& files;
  io::ReadQueues& read_queues;
  const Clock& clock;
  const DiskgnnOptions& options;
  const PipelineOptions& pipeline;
  plan::PlanStore& plans;
  /// A folder that is there; nothing is left in it.
  std::string scratch_folder;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// What the training is.
struct ForecastPasses {
  /// As for Strategy::Prepare; those of training come first.
  absl::Span<const Pass> passes;
  size_t num_training = 0;
  /// Seconds of a training step, and threads that it keeps busy.
  double train_seconds = 0;
  int train_threads = 1;
};

/// If the plan is there and whole, its own figures: rows, bytes and disk are
/// exact, pages of the disk cache are counted in some batches. Otherwise
/// batches are sampled, all of them or, of more than `most_batches`, so many
/// that are spread evenly, and the layout is forecast from these
/// (layout_forecast.h). Time follows from what is measured meanwhile
/// (machine_probe.h, time_forecast.h): it is that of a machine as busy as now.
///
/// Takes no plan, makes no plan's folder, and leaves no file, whatever happens.
/// Errors are those that Strategy::Prepare would have, as far as they can be
/// foreseen: RESOURCE_EXHAUSTED for too little disk, with the numbers;
/// CANCELLED when `stop` is requested.
absl::StatusOr<DiskgnnForecast> ForecastDiskgnn(const ForecastContext& context,
                                                const ForecastPasses& passes,
                                                int64_t most_batches = 512);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_
