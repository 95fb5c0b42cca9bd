// How fast an optimal cache is planned, per planned access:
//   bazel run -c opt //engine/plan:optimal_cache_benchmark

#include <cstdint>
#include <map>
#include <stop_token>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/optimal_cache.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"

namespace hearth::plan {
namespace {

constexpr int64_t kNodes = 8'000'000;
constexpr int64_t kBatchRows = 50'000;

// Batches of distinct rows; half of the draws falls on a fiftieth.
VectorTrace::Batches SkewedBatches(int64_t num_batches) {
  RandomStream random(1, RandomPurpose::kGenerator);
  VectorTrace::Batches batches;
  for (int64_t i = 0; i < num_batches; ++i) {
    std::unordered_set<store::NodeId> chosen;
    while (chosen.size() < kBatchRows) {
      const int64_t bound = random.Below(2) == 0 ? kNodes / 50 : kNodes;
      // Popular rows lie anywhere.
      chosen.insert(static_cast<store::NodeId>(
          random.Below(static_cast<uint64_t>(bound)) * 5'000'011 % kNodes));
    }
    batches.emplace_back(chosen.begin(), chosen.end());
  }
  return batches;
}

class NullSink final : public OptimalCache::Sink {
 public:
  absl::Status Fill(absl::Span<const OptimalCache::Filled> rows) override {
    return absl::OkStatus();
  }
  absl::Status Batch(int64_t batch,
                     const OptimalCache::BatchPlan& plan) override {
    return absl::OkStatus();
  }
};

void BM_Plan(benchmark::State& state) {
  VectorTrace trace(SkewedBatches(state.range(0)));
  const io::ScratchDirectory scratch;
  const OptimalCache::Options options = {
      .num_nodes = kNodes,
      .num_slots = kNodes * state.range(1) / 100,
      .reuse_distance = state.range(3),
      .scratch_path = scratch.Path("next_uses")};
  const int64_t end = state.range(0) * state.range(2) / 100;
  NullSink sink;
  OptimalCache::Totals totals;
  for (auto _ : state) {
    CacheSlots slots = OptimalCache::FreeSlots(options);
    totals = *OptimalCache::Plan(io::FileSystem::Posix(), trace, end,
                                 /*complete=*/end == trace.num_batches(),
                                 /*fill=*/true, options, slots, sink,
                                 std::stop_token());
  }
  state.SetItemsProcessed(state.iterations() * totals.accesses);
  const auto share = [&](int64_t rows) {
    return static_cast<double>(rows) / static_cast<double>(totals.accesses);
  };
  state.counters["misses"] = share(totals.misses);
  state.counters["filled"] = share(totals.filled);
  state.counters["entered"] = share(totals.entered);
  state.counters["uncertified"] = share(totals.uncertified);
  state.counters["time_per_access"] =
      benchmark::Counter(static_cast<double>(totals.accesses),
                         benchmark::Counter::kIsIterationInvariantRate |
                             benchmark::Counter::kInvert);
}

// (batches, slots in percent of the rows, planned batches in percent, reuse
// distance)
BENCHMARK(BM_Plan)
    ->Args({100, 1, 100, 8})
    ->Args({100, 10, 100, 0})
    ->Args({100, 10, 100, 4})
    ->Args({100, 10, 100, 8})
    ->Args({100, 40, 100, 8})
    ->Args({400, 10, 100, 8})
    ->Args({400, 10, 50, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::plan

BENCHMARK_MAIN();
