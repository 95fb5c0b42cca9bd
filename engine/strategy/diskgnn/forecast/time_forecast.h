#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_TIME_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_TIME_FORECAST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/strategy/diskgnn/forecast/layout_forecast.h"

/// Computes times from volumes and measured rates. Pure functions.

namespace hearth::strategy {

/// Rates measured on this machine.
struct MachineRates {
  /// Large reads by one loader, and by all loaders of a pass together.
  double read_bytes_per_second = 1;
  double pass_bytes_per_second = 1;
  /// Scans and large writes of packing.
  double scan_bytes_per_second = 1;
  double write_bytes_per_second = 1;
  /// Page reads at a loader's depth; 0: not needed.
  double pages_per_second = 0;
  double decode_seconds_per_byte = 0;
  double checksum_seconds_per_byte = 0;
  /// Getting memory that was not in use.
  double memory_seconds_per_byte = 0;
  double row_copy_seconds = 0;
};

/// Threads and sizes of a pass.
struct PassShape {
  /// Threads of each loader and of the assembler.
  int loaders = 1;
  int processors = 1;
  /// Batches of an epoch.
  double batches = 0;
  int64_t row_bytes = 0;
  /// Seconds of a training step, and threads that it keeps busy.
  double train_seconds = 0;
  int train_threads = 1;
};

/// Seconds of an epoch, and the resource that bounds it: "disk", "graph
/// loader", "feature loader", "assembler", "trainer" or "processors".
struct EpochTime {
  double seconds = 0;
  std::string bound;
};

/// Seconds of an epoch. Stages work on different batches at the same time, so
/// that the slowest stage decides, or the disk, or the processors if they have
/// less time than all stages compute; the first batch passes through all stages
/// alone.
EpochTime TimeOfEpoch(const EpochVolume& epoch, const PassShape& shape,
                      const MachineRates& rates);

/// The bytes that packing reads, and the memory that it takes, and a walk over
/// the trace.
struct PackingWork {
  double features = 0;
  double memory = 0;
  /// Seconds of a walk over the trace.
  double walk_seconds = 0;
};

/// Seconds of packing (PackBatches) and opening a plan, the sum of its steps:
/// two walks to make tables and to dispatch rows, with all samples decoded;
/// getting memory; scanning the features; writing packs, images and disk cache;
/// reading the disk cache and writing it in order; copying rows; reading the
/// rows of the memory levels.
double PackingSeconds(const PlanSize& plan, const PackingWork& work,
                      const MachineRates& rates);

/// Seconds of a preparation.
struct PreparationTime {
  double sampling = 0;
  double planning = 0;
  double packing = 0;

  double total() const { return sampling + planning + packing; }
};

/// The results that NotesOf puts into words.
struct ForecastSummary {
  bool plan_exists = false;
  uint64_t sampled_batches = 0;
  uint64_t total_batches = 0;
  const LayoutForecast& layout;
  const MachineRates& rates;
  const EpochTime& epoch;
  double train_seconds = 0;
  PreparationTime preparation;
};

/// Sentences for people: the layout and its reason, where rows are found, what
/// bounds the epoch, what the forecast is based on and how certain it is.
std::vector<std::string> NotesOf(const ForecastSummary& summary);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_TIME_FORECAST_H_
