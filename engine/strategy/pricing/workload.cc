#include "engine/strategy/pricing/workload.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

namespace {

// Sampling takes less than half of a job's time; with fewer batches, the
// popularity of most nodes is a guess.
constexpr double kShareOfJob = 0.06;
constexpr double kLeastBatches = 16;
constexpr double kMostBatches = 64;
// Bytes on disk of an edge, and of an input node (see batch_code.h and
// sample::WriteSample, which take between 2 and 4).
constexpr double kBytesPerEdge = 3;
constexpr double kBytesPerNode = 8;

}  // namespace

double Workload::SampleBytes() const {
  return kBytesPerEdge * edges + kBytesPerNode * rows;
}

int64_t BatchesToSample(double job_batches) {
  return static_cast<int64_t>(
      std::clamp(kShareOfJob * job_batches, kLeastBatches, kMostBatches));
}

absl::StatusOr<SampledWorkload> SampleWorkload(const ForecastContext& context,
                                               const ForecastRequest& request,
                                               int kept, bool repeats) {
  const absl::Span<const Pass> pass = request.passes.first(1);
  const int64_t shards = pass.front().shards;
  const std::vector<ShardPick> picks = SpreadOver(pass, request.most_batches);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      context.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped},
          context.stop));
  SampledWorkload result;
  Workload& workload = result.workload;
  // At most kMostBatches batches of few shards, so that the counts fit.
  std::vector<uint16_t> counts(
      static_cast<size_t>(
          store::NodeSpace(context.dataset.manifest()).num_nodes()),
      0);
  double seeds = 0;
  // The first half finds pages and caches cold.
  const auto half = picks.size() / 2;
  size_t done = 0;
  double start = context.clock.SteadySeconds();
  HEARTH_RETURN_IF_ERROR(SampleShards(
      {.clock = context.clock,
       .source = SampleSource{.topology = *topology, .labels = context.labels},
       .samplers = context.pipeline.samplers},
      pass, picks,
      [&](const ShardPick& pick, const sample::MiniBatch& batch) {
        for (const store::NodeId node : batch.input_nodes) ++counts[node];
        workload.rows += static_cast<double>(batch.input_nodes.size());
        for (const sample::Block& block : batch.blocks) {
          workload.edges += static_cast<double>(block.indices.size());
          workload.lists += static_cast<double>(block.num_destinations);
        }
        seeds += static_cast<double>(batch.num_seeds);
        if (std::ssize(result.samples) < kept * shards) {
          result.picks.push_back(pick);
          result.samples.push_back(batch);
        }
        if (++done == half) start = context.clock.SteadySeconds();
        return absl::OkStatus();
      },
      context.stop));
  const double wall = context.clock.SteadySeconds() - start;
  const auto batches =
      static_cast<double>(picks.size()) / static_cast<double>(shards);
  const double threads =
      std::min(context.pipeline.samplers, UsableProcessors());
  const double timed =
      static_cast<double>(picks.size() - half) / static_cast<double>(shards);
  workload.sample_seconds = wall * threads / std::max(1.0, timed);
  // A pass may end with a short batch; all count by their seeds.
  const double full =
      std::max(1.0, seeds / static_cast<double>(pass.front().batch_size));
  workload.rows /= full;
  workload.edges /= full;
  workload.lists /= full;
  workload.sampled_batches = std::llround(batches);
  workload.training.batches = static_cast<double>(pass.front().order->size()) /
                              static_cast<double>(pass.front().batch_size);
  std::vector<double> seen(
      static_cast<size_t>(workload.sampled_batches * shards) + 1, 0);
  for (const uint16_t count : counts) {
    ++seen[std::min<size_t>(count, seen.size() - 1)];
  }
  workload.misses = std::make_shared<MissCurves>(
      std::move(seen), NumBatches(pass.front()) * shards, repeats);
  return result;
}

MemoryEstimate EstimateSamplingMemory(const MemoryBasis& basis, int kept) {
  // MissCurves, at most: the accesses of two epochs, and a few numbers for each
  // node that they stand for.
  constexpr uint64_t kMostCurveBytes = 8 << 20;
  const auto nodes = static_cast<uint64_t>(basis.num_nodes());
  const auto accesses =
      static_cast<uint64_t>(basis.num_batches * basis.shards *
                            basis.batches.WithMargin().num_inputs());
  MemoryEstimate estimate = EstimateCountingMemory(basis);
  estimate.Add("counts",
               sizeof(uint16_t) * nodes +
                   std::min(kMostCurveBytes, 128 * nodes + 64 * accesses));
  estimate.Add("kept batches", static_cast<uint64_t>(kept * basis.shards) *
                                   basis.batches.WithMargin().MemoryBytes());
  return estimate;
}

}  // namespace hearth::strategy
