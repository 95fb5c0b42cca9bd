#include "engine/strategy/spread_sampling.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

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

using TakeShard =
    absl::FunctionRef<absl::Status(const ShardPick&, const sample::MiniBatch&)>;

// Samples `picks`, all of them of `pass`.
absl::Status SamplePicks(const SpreadSampling& sampling, const Pass& pass,
                         absl::Span<const ShardPick> picks, TakeShard take,
                         std::stop_token stop) {
  const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
  std::vector<pipeline::Stage> stages = SampleStages(
      pass, seeds, sampling.source, {.threads = sampling.samplers});
  const int64_t first = pass.first_batch * pass.shards;
  int64_t count = std::ssize(picks);
  if (pass.history != nullptr) {
    // Those that are not picked go through the stages, too, since what they
    // push decides what later ones pull, but need nothing of the last one.
    count = picks.back().number - first + 1;
    stages.back().work = [picks, rest = std::move(stages.back().work)](
                             int thread, pipeline::Item& item) {
      const int64_t number = static_cast<SampledBatch&>(item).number();
      const bool is_picked = std::binary_search(
          picks.begin(), picks.end(), ShardPick{picks.front().pass, number},
          [](const auto& a, const auto& b) { return a.number < b.number; });
      return is_picked ? rest(thread, item) : absl::OkStatus();
    };
  }
  auto next = picks.begin();
  return pipeline::NewPipeline(std::move(stages), "take", sampling.clock)
      ->Run(
          count,
          [&](int64_t index) {
            return std::make_unique<SampledBatch>(
                pass.history == nullptr
                    ? picks[static_cast<size_t>(index)].number
                    : first + index);
          },
          [&](std::unique_ptr<pipeline::Item> item) {
            const auto& batch = static_cast<SampledBatch&>(*item);
            if (batch.number() != next->number) return absl::OkStatus();
            return take(*next++, batch.sample());
          },
          std::move(stop));
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
    Pass pass = passes[picks[begin].pass];
    if (!sampling.with_histories) pass.history = nullptr;
    HEARTH_RETURN_IF_ERROR(SamplePicks(
        sampling, pass, picks.subspan(begin, end - begin),
        [&](const ShardPick& pick, const sample::MiniBatch& batch) {
          HEARTH_RETURN_IF_ERROR(take(pick, batch));
          if (sampling.progress) sampling.progress(++done, picks.size());
          return absl::OkStatus();
        },
        stop));
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace hearth::strategy
