// How fast batches are sampled from a graph that does not fit in the caches:
//   bazel run //engine/sample:sampler_benchmark
// and, where HEARTH_BENCHMARK_DATASET names a dataset's folder, from that one,
// in memory and mapped.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"

namespace hearth::sample {
namespace {

// A graph with degrees 1 .. 39, a few thousand hubs, and random sources.
struct RandomGraph {
  explicit RandomGraph(int64_t num_nodes) : indptr{0} {
    RandomStream random(1, RandomPurpose::kGenerator);
    for (int64_t node = 0; node < num_nodes; ++node) {
      const uint64_t degree = node % 1000 == 0 ? 2000 : 1 + random.Below(39);
      for (uint64_t i = 0; i < degree; ++i) {
        indices.push_back(static_cast<int32_t>(random.Below(num_nodes)));
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
  }

  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
};

void BM_Sample(benchmark::State& state) {
  constexpr int64_t kNodes = 4'000'000;
  static const RandomGraph graph(kNodes);
  const auto sampler = NewNeighborSampler(
      {graph.indptr, absl::Span<const int32_t>(graph.indices)},
      {.fanouts = std::vector<int32_t>(state.range(0),
                                       static_cast<int32_t>(state.range(1))),
       .data_seed = 1});
  uint64_t number = 0;
  int64_t edges = 0;
  for (auto _ : state) {
    std::vector<store::NodeId> seeds;
    for (int64_t i = 0; i < 1024; ++i) {
      seeds.push_back((static_cast<int64_t>(number) * 1024 + i) * 7919 %
                      kNodes);
    }
    const MiniBatch batch =
        *sampler->Sample({.epoch_key = 0, .batch = number++}, seeds);
    for (const Block& block : batch.blocks) edges += block.indptr.back();
  }
  state.SetItemsProcessed(edges);
}

// (layers, fan-out)
BENCHMARK(BM_Sample)
    ->Args({2, 10})
    ->Args({3, 10})
    ->Args({2, 25})
    ->Args({1, 100})
    ->Unit(benchmark::kMillisecond);

// The training batches of a dataset, epoch after epoch. Mapped pages are
// touched for the first time in the warm-up.
void BM_SampleDataset(benchmark::State& state) {
  constexpr size_t kSeeds = 1024;
  const char* folder = std::getenv("HEARTH_BENCHMARK_DATASET");
  if (folder == nullptr) {
    state.SkipWithError("HEARTH_BENCHMARK_DATASET names no dataset");
    return;
  }
  const auto dataset = store::Dataset::Open(io::FileSystem::Posix(), folder);
  if (!dataset.ok()) {
    state.SkipWithError(dataset.status().ToString().c_str());
    return;
  }
  const auto topology = *(*dataset)->LoadTopology(
      {store::Residency::kMemory, state.range(0) != 0
                                      ? store::Residency::kMapped
                                      : store::Residency::kMemory});
  const std::unique_ptr<SeedOrder> order =
      NewShuffledOrder((*dataset)->LoadSplit()->train, 1);
  const std::vector<store::NodeId> seeds = order->Epoch(0);
  const auto sampler = NewNeighborSampler(
      topology->view(), {.fanouts = {10, 10, 10}, .data_seed = 1});
  uint64_t number = 0;
  int64_t edges = 0;
  int64_t nodes = 0;
  for (auto _ : state) {
    const size_t first = number * kSeeds % seeds.size();
    const MiniBatch batch =
        *sampler->Sample({.epoch_key = 0, .batch = number++},
                         absl::MakeConstSpan(seeds).subspan(first, kSeeds));
    for (const Block& block : batch.blocks) edges += block.indptr.back();
    nodes += static_cast<int64_t>(batch.input_nodes.size());
  }
  state.SetItemsProcessed(edges);
  state.counters["nodes"] = benchmark::Counter(static_cast<double>(nodes),
                                               benchmark::Counter::kIsRate);
}

BENCHMARK(BM_SampleDataset)
    ->ArgName("mapped")
    ->Arg(0)
    ->Arg(1)
    ->MinWarmUpTime(4)
    ->MinTime(4)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::sample

BENCHMARK_MAIN();
