#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_CONTEXT_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/io/coalesce.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"
#include "engine/strategy/diskgnn/packing/encoded_samples.h"

namespace hearth::strategy {

/// The data that a plan is packed from. All outlive the packing.
struct PackInput {
  plan::AccessTrace* trace = nullptr;
  const MemoryLevels* levels = nullptr;
  EncodedSamples* samples = nullptr;
  /// Opened for a scan.
  io::ReadableFile* features = nullptr;
  /// Where the rows are in it.
  io::RowLayout rows;
};

/// How far packing is, for people.
struct PackProgress {
  /// "planning", "scanning" or "ordering", in this order.
  absl::string_view stage;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct PackOptions {
  /// The folder of the plan; made if it is not there.
  std::string folder;
  /// The caller's number for what the plan depends on: it is in the index and
  /// in every chunk.
  uint64_t plan_id = 0;
  /// For all memory but that of the input. Default: 1 GiB.
  uint64_t memory_limit_bytes = uint64_t{1} << 30;
  /// Called on the caller's thread, every few dozen MiB. May be empty.
  std::function<void(const PackProgress&)> progress;
  /// That work at the same time, the caller's included; the features are read
  /// by one more.
  int threads = 1;
  std::stop_token stop;
  /// For waiting times alone. Outlives the packing.
  const Clock* clock = &Clock::Real();
};

/// Everything that a stage of packing works with; all outlive it.
struct PackContext {
  io::FileSystem& files;
  const PackInput& input;
  const Segmentation& segmentation;
  const PackOptions& options;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_CONTEXT_H_
