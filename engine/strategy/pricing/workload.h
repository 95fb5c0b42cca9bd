#ifndef HEARTH_ENGINE_STRATEGY_PRICING_WORKLOAD_H_
#define HEARTH_ENGINE_STRATEGY_PRICING_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pricing/miss_curves.h"
#include "engine/strategy/sampling.h"

/// What a job does, as far as the price of a strategy depends on it (Workload),
/// and the sample of its batches from which that follows (SampleWorkload).

namespace hearth::strategy {

/// A pass of a job. A batch counts by its seeds: one with half as many as a
/// full batch is half a batch.
struct PassLoad {
  double batches = 0;
  /// Seconds that training, or evaluating, on a batch takes.
  double step_seconds = 0;
};

/// The work of a job that no strategy changes.
struct Workload {
  PassLoad training = {};
  PassLoad validation = {};
  PassLoad test = {};
  /// Epochs that are trained, in so many periods, and epochs of a period with
  /// batches of their own.
  double epochs = 1;
  double periods = 1;
  double distinct_epochs = 1;
  /// Whether there is a validation after each epoch, and a test.
  bool validates = false;
  bool tests = false;
  /// Of a full batch, all shards together: input rows, edges, and neighbor
  /// lists drawn from.
  double rows = 0;
  double edges = 0;
  double lists = 0;
  /// Processor seconds to sample a batch from memory.
  double sample_seconds = 0;
  /// Threads that a step keeps busy.
  int train_threads = 1;
  int64_t sampled_batches = 0;
  /// Of the rows of a training epoch. Never null.
  std::shared_ptr<const MissCurves> misses = nullptr;

  /// Bytes of a batch's sample as strategies keep it on disk.
  double SampleBytes() const;
};

/// Samples of a training pass.
struct SampledWorkload {
  Workload workload;
  /// The first whole batches, with all their shards, and their picks.
  std::vector<ShardPick> picks;
  std::vector<sample::MiniBatch> samples;
};

/// Number of batches that are worth sampling for a job of `job_batches` of
/// them: about 6% of its sampling, from 16 to 64.
int64_t BatchesToSample(double job_batches);

/// Samples up to `request.most_batches` batches of the first training pass of
/// `request`, spread over it, for MissCurves and the sizes of batches; keeps
/// the first `kept` of them. Epochs and times of steps are the caller's to set.
/// `repeats`: see MissCurves. Errors of reading the topology and of sampling;
/// CANCELLED on a stop.
absl::StatusOr<SampledWorkload> SampleWorkload(const ForecastContext& context,
                                               const ForecastRequest& request,
                                               int kept, bool repeats);

/// The memory that SampleWorkload holds at most.
MemoryEstimate EstimateSamplingMemory(const MemoryBasis& basis, int kept);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PRICING_WORKLOAD_H_
