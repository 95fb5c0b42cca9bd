#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_RUN_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_RUN_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/clock.h"

namespace hearth::plan {

/// How far a stage of the work is, in bytes that it reads or writes.
struct PartitionProgress {
  /// "first level", "second level", and so on.
  absl::string_view stage;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

/// The circumstances in which a partition is made; none of them changes it.
struct PartitionRun {
  /// The plan's folder; made when needed.
  std::string folder;
  int threads = 1;
  /// May be absent. Called from several threads, one at a time.
  std::function<void(const PartitionProgress&)> progress = nullptr;
  std::stop_token stop = {};
  /// Outlives the call.
  const Clock* clock = &Clock::Real();
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_RUN_H_
