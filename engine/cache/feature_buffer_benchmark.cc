// Measures what the feature buffer's bookkeeping costs a row: claimed, loaded
// where it is missing, and given back. Reading a row from a fast disk takes
// 2,000 ns or more.
//   bazel run //engine/cache:feature_buffer_benchmark

#include <cstddef>
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/cache/feature_buffer.h"
#include "engine/cache/row_memory.h"
#include "engine/store/topology.h"

namespace hearth::cache {
namespace {

constexpr int64_t kRowBytes = 512;
constexpr int64_t kRowsPerBatch = 100'000;
constexpr int64_t kNodes = 20'000'000;

std::vector<store::NodeId> DistinctNodes(uint64_t batch, int64_t of_nodes) {
  RandomStream random(1, RandomPurpose::kGenerator, batch);
  std::vector<store::NodeId> nodes;
  int64_t node = 0;
  for (int64_t i = 0; i < kRowsPerBatch; ++i) {
    node += 1 + static_cast<int64_t>(random.Below(of_nodes / kRowsPerBatch));
    // Scattered, as sampled nodes are.
    nodes.push_back(node * 7919 % of_nodes);
  }
  return nodes;
}

// Batches whose rows are all missing or, after the first batches, all present.
void BM_Batch(benchmark::State& state) {
  const bool there = state.range(0) != 0;
  const int64_t of_nodes = there ? 4 * kRowsPerBatch : kNodes;
  FeatureBuffer buffer(*SlotArena::Make(4 * kRowsPerBatch, kRowBytes));
  const std::vector<std::byte> row(kRowBytes);
  uint64_t number = 0;
  int64_t missed = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::vector<store::NodeId> nodes = DistinctNodes(number++, of_nodes);
    state.ResumeTiming();
    FeatureBuffer::Pins pins(buffer);
    pins.Claim(nodes);
    for (size_t i = 0; i < pins.missing().size(); ++i) pins.Load(i, row.data());
    pins.FinishLoading();
    missed += pins.num_missed();
  }
  const auto rows = static_cast<double>(state.iterations() * kRowsPerBatch);
  state.SetItemsProcessed(static_cast<int64_t>(rows));
  state.counters["missed"] = static_cast<double>(missed) / rows;
}

BENCHMARK(BM_Batch)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::cache

BENCHMARK_MAIN();
