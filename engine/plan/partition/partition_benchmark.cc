// Measures how fast a graph is partitioned, all files written out:
//   bazel run //engine/plan/partition:partition_benchmark
// The graph has communities and lies in $TMPDIR; where HEARTH_BENCHMARK_DATASET
// names a dataset's folder, that dataset is partitioned, too. Items are edges;
// CPU time is that of all threads.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/write_partition.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/list_graph.h"
#include "engine/store/topology.h"

namespace hearth::plan {
namespace {

constexpr int64_t kNodes = 2'000'000;
constexpr int64_t kDegree = 15;

// (parts, rounds, Bloom filters, threads)
void Partition(benchmark::State& state, const store::Dataset& dataset,
               const std::string& folder) {
  // One node of a hundred.
  std::vector<store::NodeId> training_nodes;
  const int64_t nodes = dataset.manifest().node_types[0].num_nodes;
  for (store::NodeId node = 0; node < nodes; node += 100) {
    training_nodes.push_back(node);
  }
  const PartitionOptions options = {.parts = static_cast<int>(state.range(0)),
                                    .rounds = static_cast<int>(state.range(1)),
                                    .membership = state.range(2) != 0
                                                      ? Membership::kBloom
                                                      : Membership::kExact};
  for (auto _ : state) {
    const auto summary = WritePartition(
        io::FileSystem::Posix(), dataset, training_nodes, options,
        {.folder = folder, .threads = static_cast<int>(state.range(3))});
    if (!summary.ok()) {
      state.SkipWithError(summary.status().ToString().c_str());
      return;
    }
    state.counters["cut"] = static_cast<double>(summary->cut_edges) /
                            static_cast<double>(summary->edges);
  }
  state.SetItemsProcessed(state.iterations() *
                          dataset.manifest().edge_types[0].num_edges);
}

void BM_Communities(benchmark::State& state) {
  static const io::ScratchDirectory scratch;
  static const std::unique_ptr<store::Dataset> dataset = [] {
    RandomStream random(1, RandomPurpose::kGenerator);
    return *store::StoreGraph(
        io::FileSystem::Posix(), scratch.Path("dataset"),
        store::MakePlantedGraph(
            {.nodes = kNodes, .communities = kNodes / 800, .degree = kDegree},
            random));
  }();
  Partition(state, *dataset, scratch.Path("plan"));
}

void BM_Dataset(benchmark::State& state) {
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
  const io::ScratchDirectory scratch;
  Partition(state, **dataset, scratch.Path("plan"));
}

BENCHMARK(BM_Communities)
    ->ArgNames({"parts", "rounds", "bloom", "threads"})
    ->Args({2500, 1, 0, 1})
    ->Args({2500, 1, 0, 2})
    ->Args({2500, 1, 1, 2})
    ->Args({50, 1, 0, 2})
    ->Args({2500, 10, 0, 2})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

BENCHMARK(BM_Dataset)
    ->ArgNames({"parts", "rounds", "bloom", "threads"})
    ->Args({10'000, 1, 0, 2})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::plan

BENCHMARK_MAIN();
