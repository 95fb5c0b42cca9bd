#ifndef HEARTH_ENGINE_STRATEGY_PACKING_OFFLINE_SAMPLING_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_OFFLINE_SAMPLING_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"

/// Sampling of passes before they run, into a SampleSpool.

namespace hearth::strategy {

/// How batches are sampled offline, and where samples are written. Outlives the
/// call.
struct OfflineSampling {
  io::FileSystem& files;
  const Clock& clock;
  /// SampleOffline fills in SlabSource::reserve.
  OfflineSource source;
  /// Threads that sample.
  int samplers = 1;
  /// The path of the spool, in an existing folder.
  std::string path;
  /// Called before `bytes` more bytes are written. May be empty.
  std::function<absl::Status(uint64_t bytes)> reserve = nullptr;
  /// As SpreadSampling::progress.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// Samples all shards of all `passes` before training (DiskGNN, section 3), by
/// several threads, into a SampleSpool, in order. RESOURCE_EXHAUSTED if the
/// disk is full; CANCELLED when `stop` is requested; errors of `reserve`. After
/// an error no file is left.
absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes, std::stop_token stop);

/// As above for the shards `picks` alone, made by SpreadOver from `passes`.
absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           absl::Span<const ShardPick> picks,
                           std::stop_token stop);

/// Memory of the topology while up to `num_batches` batches are sampled
/// together.
uint64_t OfflineTopologyBytes(const MemoryBasis& basis, int64_t num_batches);

/// Shards with a sample at a time: those of the samplers (in slabs also the
/// bytes that each reads), and those that wait to be written.
int OfflineSamples(const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_OFFLINE_SAMPLING_H_
