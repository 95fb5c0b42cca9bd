// How fast a segment is planned and a layout is searched, per access:
//   bazel run -c opt //engine/strategy/diskgnn/layout:layout_benchmark

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNodes = 1'000'000;
constexpr int64_t kBatches = 100;
constexpr int64_t kBatchNodes = 20'000;

struct Work {
  Work() : trace(MakeBatches()) {
    counts = std::make_unique<plan::AccessCounts>(
        *plan::AccessCounts::Count(trace, kNodes, {}));
    levels = std::make_unique<MemoryLevels>(
        *MemoryLevels::Choose(*counts, {.cpu = kNodes / 20}));
  }

  static plan::VectorTrace::Batches MakeBatches() {
    RandomStream random(1, RandomPurpose::kGenerator);
    return plan::VectorTrace::Random(random, kNodes, kBatches, kBatchNodes);
  }

  plan::VectorTrace trace;
  std::unique_ptr<plan::AccessCounts> counts;
  std::unique_ptr<MemoryLevels> levels;
};

Work& SharedWork() {
  static Work& work = *new Work();
  return work;
}

void BM_CountAndRank(benchmark::State& state) {
  Work& work = SharedWork();
  for (auto _ : state) {
    const auto counts = plan::AccessCounts::Count(work.trace, kNodes, {});
    benchmark::DoNotOptimize(counts->MostAccessed(kNodes / 20));
  }
  state.SetItemsProcessed(state.iterations() * kBatches * kBatchNodes);
}

// (rows): algorithm 1 alone, each row needed by 4 of 50 batches.
void BM_MinHashOrder(benchmark::State& state) {
  constexpr int64_t kSegment = 50;
  constexpr int kNeeds = 4;
  const int64_t num_rows = state.range(0);
  for (auto _ : state) {
    MinHashOrder order(num_rows, kSegment, 1, 0);
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int i = 0; i < kNeeds; ++i) {
        order.Add((row * 7 + i * 13) % kSegment, static_cast<uint32_t>(row));
      }
    }
    benchmark::DoNotOptimize(std::move(order).Places());
  }
  state.SetItemsProcessed(state.iterations() * num_rows * kNeeds);
}

// (batches of the segment)
void BM_PlanSegment(benchmark::State& state) {
  Work& work = SharedWork();
  const auto planner = *SegmentPlanner::Make(work.trace, *work.levels);
  for (auto _ : state) {
    const bool planned =
        planner->Choose({.begin = 0, .end = state.range(0)}, {}).ok() &&
        planner->Order(1, {}).ok();
    if (!planned) return state.SkipWithError("not planned");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * kBatchNodes);
}

// All sizes against a few: what brute force would take.
void BM_SearchLayout(benchmark::State& state) {
  Work& work = SharedWork();
  const std::vector<uint64_t> sample_bytes(kBatches, 100'000);
  const LayoutInput input = {.trace = &work.trace,
                             .levels = work.levels.get(),
                             .row_bytes = 512,
                             .sample_bytes = sample_bytes};
  const auto bytes = [&](int64_t size) {
    return MeasureLayout(input, {.num_batches = kBatches, .segment_size = size},
                         {})
        ->total_bytes();
  };
  const LayoutLimits limits = {.disk_bytes = (bytes(1) + bytes(kBatches)) / 2};
  for (auto _ : state) {
    const auto choice = SearchLayout(
        input, limits, {.max_tried = state.range(0), .max_sampled_batches = 64},
        {});
    if (!choice.ok()) return state.SkipWithError("nothing found");
    state.counters["tried"] = static_cast<double>(choice->num_tried);
  }
}

BENCHMARK(BM_CountAndRank)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MinHashOrder)
    ->Arg(100'000)
    ->Arg(4'000'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_PlanSegment)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SearchLayout)->Arg(12)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::strategy

BENCHMARK_MAIN();
