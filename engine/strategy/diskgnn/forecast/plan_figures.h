#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_PLAN_FIGURES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_PLAN_FIGURES_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/forecast/layout_forecast.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/plan_identity.h"

namespace hearth::strategy {

/// A plan that is there. All of it outlives the call.
struct KnownPlan {
  io::FileSystem& files;
  const Clock& clock;
  const IdentifiedPlan& plan;
  const PackedLayout& layout;
  /// The parts of all its batches.
  const TraceParts& parts;
  std::stop_token stop;
};

/// The figures that a plan tells of itself.
struct PlanFigures {
  /// As if it were forecast; exact but for the pages of the disk cache, which
  /// are counted in the address tables of up to 512 batches of training.
  LayoutForecast layout;
  double decode_seconds_per_byte = 0;
};

/// DATA_LOSS for damage that is met; CANCELLED when `stop` is requested.
absl::StatusOr<PlanFigures> ReadPlanFigures(const KnownPlan& known);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_PLAN_FIGURES_H_
