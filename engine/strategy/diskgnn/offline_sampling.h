#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_OFFLINE_SAMPLING_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_OFFLINE_SAMPLING_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/spread_sampling.h"

namespace hearth::strategy {

/// Where offline samples go, and how they are made. All of it outlives the
/// call.
struct OfflineSampling {
  io::FileSystem& files;
  const Clock& clock;
  SampleSource source;
  /// Threads.
  int samplers = 1;
  /// The path of the spool; its folder is there.
  std::string path;
  /// Called before so many more bytes are written. May be empty.
  std::function<absl::Status(uint64_t bytes)> make_room = nullptr;
  /// Hears of shards done and in all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// Samples all shards of all `passes`, pass after pass, before training
/// (DiskGNN, section 3), by several threads, into a SampleSpool in their
/// order. RESOURCE_EXHAUSTED if the disk is full; CANCELLED when `stop` is
/// requested; errors of `make_room`; after an error nothing is left.
absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes, std::stop_token stop);

/// The same of the shards `picks` alone, which SpreadOver made of `passes`.
absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           absl::Span<const ShardPick> picks,
                           std::stop_token stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_OFFLINE_SAMPLING_H_
