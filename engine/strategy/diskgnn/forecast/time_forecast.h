#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_TIME_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_TIME_FORECAST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/strategy/diskgnn/forecast/layout_forecast.h"

/// From volumes and measured rates to time. Pure functions.

namespace hearth::strategy {

/// Rates that were measured on this machine.
struct MachineRates {
  /// Bytes that a loader reads in large pieces, and all loaders of a pass
  /// together.
  double read_bytes_per_second = 1;
  double pass_bytes_per_second = 1;
  /// Bytes that are scanned, and written in large pieces, while packing.
  double scan_bytes_per_second = 1;
  double write_bytes_per_second = 1;
  /// Small reads at a loader's depth; 0: not needed.
  double pages_per_second = 0;
  double decode_seconds_per_byte = 0;
  double checksum_seconds_per_byte = 0;
  /// Seconds to get a byte of memory that was not in use.
  double memory_seconds_per_byte = 0;
  double row_copy_seconds = 0;
};

/// How a pass runs.
struct PassShape {
  /// Threads of each loader and of the assembler.
  int loaders = 1;
  int processors = 1;
  /// Whole batches of an epoch.
  double batches = 0;
  int64_t row_bytes = 0;
  /// Seconds of a training step, and threads that are busy meanwhile.
  double train_seconds = 0;
  int train_threads = 1;
};

/// Seconds of an epoch, and what they are bound by: "disk", "graph loader",
/// "feature loader", "assembler", "trainer" or "processors".
struct EpochTime {
  double seconds = 0;
  std::string bound;
};

/// Stages work on different batches at the same time: the slowest one decides,
/// or the disk, or the processors if what all of them compute is more than
/// those have; the first batch passes all stages alone.
EpochTime TimeOfEpoch(const EpochVolume& epoch, const PassShape& shape,
                      const MachineRates& rates);

/// The bytes that packing works on: all features, and the memory for them.
struct PackingWork {
  double features = 0;
  double memory = 0;
  /// A walk over the trace.
  double walk_seconds = 0;
};

/// Seconds of packing (PackBatches), one step after the other: two walks
/// to make tables and to dispatch the rows, with all samples decoded; memory is
/// taken; the features are scanned; packs, images and disk cache are written,
/// the latter read and written again in its order; rows are copied; and the
/// rows in memory are read when the plan is opened.
double PackingSeconds(const PlanVolume& plan, const PackingWork& work,
                      const MachineRates& rates);

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

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_TIME_FORECAST_H_
