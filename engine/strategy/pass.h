#ifndef HEARTH_ENGINE_STRATEGY_PASS_H_
#define HEARTH_ENGINE_STRATEGY_PASS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/sample/history.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/strategy/batch_bound.h"

namespace hearth::strategy {

/// Threads of the pipeline's stages, and what samples.
struct PipelineOptions {
  int samplers = 1;
  int extractors = 1;
  /// The number of the GPU that samples batches; absent: the processor does.
  /// The batches are the same. For strategies with StrategyKind::samples_on_gpu
  /// alone, and not layer by layer.
  std::optional<int> sampling_gpu = {};

  /// INVALID_ARGUMENT unless there is at least one of each.
  absl::Status Validate() const;

  bool operator==(const PipelineOptions&) const = default;
};

/// Batches to deliver: those of one epoch of one split.
struct Pass {
  /// The seeds, in their order. Must outlive the pass.
  const sample::SeedOrder* order = nullptr;
  /// How their neighbors are drawn.
  sample::NeighborSamplerOptions sampler;
  int64_t batch_size = 0;
  /// Parts in which a batch is sampled and delivered, one for each trainer.
  /// Its seeds are cut into this many runs of nearly equal length, of which a
  /// short batch leaves some empty; a shard's samples are keyed by the whole
  /// batch, so that each node has the neighbors that the batch would give it.
  int64_t shards = 1;
  uint64_t epoch_key = 0;
  /// Batches before this one are skipped (a resumed epoch).
  int64_t first_batch = 0;
  /// How large batches are: whoever makes the pass measures them
  /// (largest_batch.h), or bounds them by the fan-outs.
  BatchBound batches = {};
  /// Which embeddings come from earlier batches; null = none. Must outlive the
  /// pass. REQUIRES: two fan-outs or more, and a strategy that delivers in
  /// order.
  const sample::HistoryPolicy* history = nullptr;
  /// Whether all that take the batches train on the GPU that keeps rows
  /// (StrategyResources::gpu), so that a strategy may leave the input rows
  /// there (train::BatchView::device_rows).
  bool rows_on_gpu = false;
};

/// The sampler as a plan's property: "fan-outs" or "nodes per layer", and
/// which.
std::pair<std::string, std::string> DescribeSampler(
    const sample::NeighborSamplerOptions& sampler);

/// Number of batches in a pass over `num_seeds` seeds, skipped ones included.
int64_t NumBatches(int64_t num_seeds, int64_t batch_size);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PASS_H_
