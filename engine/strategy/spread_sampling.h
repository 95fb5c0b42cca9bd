#ifndef HEARTH_ENGINE_STRATEGY_SPREAD_SAMPLING_H_
#define HEARTH_ENGINE_STRATEGY_SPREAD_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/sample/mini_batch.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sample_stage.h"

/// Sampling for its own sake, before or instead of training: all batches of
/// some passes, or a part of them that is spread evenly.

namespace hearth::strategy {

/// One shard of a batch.
struct ShardPick {
  /// Index among the passes.
  size_t pass = 0;
  /// As in ShardsOf.
  int64_t number = 0;

  bool operator==(const ShardPick&) const = default;
};

/// Batches of all passes together, from each one's `first_batch` on.
int64_t TotalBatches(absl::Span<const Pass> passes);

/// All shards of `most` batches, spread evenly over those of all passes, or of
/// all batches if there are no more: pass after pass, each in order.
/// REQUIRES: most >= 1.
std::vector<ShardPick> SpreadOver(absl::Span<const Pass> passes, int64_t most);

struct SpreadSampling {
  const Clock& clock;
  SampleSource source;
  /// Threads.
  int samplers = 1;
  /// Hears of shards done and in all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  /// Whether passes keep to their histories, for which the last layer of every
  /// shard up to the last one that is picked is sampled; else they are taken to
  /// have none.
  bool with_histories = false;
};

/// Samples `picks`, which SpreadOver made of `passes`, by several threads, and
/// hands each to `take`, in their order, on the caller's thread. CANCELLED when
/// `stop` is requested; errors of `take`.
absl::Status SampleShards(
    const SpreadSampling& sampling, absl::Span<const Pass> passes,
    absl::Span<const ShardPick> picks,
    absl::FunctionRef<absl::Status(const ShardPick& pick,
                                   const sample::MiniBatch& batch)>
        take,
    std::stop_token stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SPREAD_SAMPLING_H_
