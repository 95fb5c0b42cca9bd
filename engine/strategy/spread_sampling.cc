#include "engine/strategy/spread_sampling.h"

#include <algorithm>
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {
namespace {

int64_t BatchesOf(const Pass& pass) {
  const auto seeds = std::ssize(pass.order->Epoch(pass.epoch_key));
  return NumBatches(seeds, pass.batch_size) - pass.first_batch;
}

}  // namespace

int64_t TotalBatches(absl::Span<const Pass> passes) {
  int64_t total = 0;
  for (const Pass& pass : passes) total += BatchesOf(pass);
  return total;
}

std::vector<ShardPick> SpreadOver(absl::Span<const Pass> passes, int64_t most) {
  const int64_t total = TotalBatches(passes);
  const int64_t count = std::min(total, most);
  std::vector<ShardPick> picks;
  // The first batch of the pass among all, and the first one behind it.
  int64_t begin = 0;
  int64_t next = 0;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    const int64_t end = begin + BatchesOf(passes[pass]);
    for (; next < count; ++next) {
      // In the middle of its part, so that short last batches are not
      // preferred.
      const auto batch = static_cast<int64_t>(
          (static_cast<__int128>(2 * next + 1) * total) / (2 * count));
      if (batch >= end) break;
      const int64_t number = passes[pass].first_batch + batch - begin;
      for (int64_t shard = 0; shard < passes[pass].shards; ++shard) {
        picks.push_back({pass, number * passes[pass].shards + shard});
      }
    }
    begin = end;
  }
  return picks;
}

absl::Status SampleShards(
    const SpreadSampling& sampling, absl::Span<const Pass> passes,
    absl::Span<const ShardPick> picks,
    absl::FunctionRef<absl::Status(const ShardPick& pick,
                                   const sample::MiniBatch& batch)>
        take,
    std::stop_token stop) {
  uint64_t done = 0;
  for (size_t begin = 0; begin < picks.size();) {
    size_t end = begin;
    while (end < picks.size() && picks[end].pass == picks[begin].pass) ++end;
    const Pass& pass = passes[picks[begin].pass];
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline({SampleStage(pass, seeds, sampling.source,
                                           {.threads = sampling.samplers})},
                              "take", sampling.clock);
    size_t next = begin;
    HEARTH_RETURN_IF_ERROR(pipeline->Run(
        static_cast<int64_t>(end - begin),
        [&](int64_t index) {
          return std::make_unique<SampledBatch>(
              picks[begin + static_cast<size_t>(index)].number);
        },
        [&](std::unique_ptr<pipeline::Item> item) {
          HEARTH_RETURN_IF_ERROR(
              take(picks[next++], static_cast<SampledBatch&>(*item).sample()));
          if (sampling.progress) sampling.progress(++done, picks.size());
          return absl::OkStatus();
        },
        stop));
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace hearth::strategy
