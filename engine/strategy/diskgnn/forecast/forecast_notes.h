#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_NOTES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/strategy/diskgnn/forecast/layout_forecast.h"
#include "engine/strategy/diskgnn/forecast/time_forecast.h"

namespace hearth::strategy {

/// Seconds of a preparation.
struct PreparationTime {
  double sampling = 0;
  double planning = 0;
  double packing = 0;

  double total() const { return sampling + planning + packing; }
};

/// The facts that notes tell of.
struct ForecastFacts {
  bool plan_exists = false;
  uint64_t sampled_batches = 0;
  uint64_t total_batches = 0;
  const LayoutForecast& layout;
  const MachineRates& rates;
  const EpochTime& epoch;
  double train_seconds = 0;
  PreparationTime preparation;
};

/// In sentences for people: the layout and why, where rows are found, what
/// bounds the epoch, what all of it rests on and how sure it is.
std::vector<std::string> NotesOf(const ForecastFacts& facts);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_NOTES_H_
