// Speed of computing a generated graph on one core:
//   bazel run //engine/ingest/generate:generate_benchmark

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generated_classes.h"
#include "engine/ingest/generate/generated_edges.h"
#include "engine/ingest/generate/generated_graph.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockEdges = 64 << 10;
constexpr int64_t kBlockRows = 4096;

GenerateOptions Options() {
  GenerateOptions options;
  options.num_nodes = 100'000'000;
  options.num_edges = 1'000'000'000;
  return options;
}

void ReadEdges(benchmark::State& state, const GenerateOptions& options) {
  const auto edges = NewGeneratedEdges(options, GeneratedClasses(options));
  EdgeBlock block;
  int64_t first = 0;
  for (auto _ : state) {
    edges->Read(first, kBlockEdges, block).IgnoreError();
    first = (first + kBlockEdges) % (options.num_edges - kBlockEdges);
    benchmark::DoNotOptimize(block.sources.data());
  }
  state.SetItemsProcessed(state.iterations() * kBlockEdges);
}

void BM_RmatEdges(benchmark::State& state) {
  GenerateOptions options = Options();
  options.undirected = state.range(0) != 0;
  ReadEdges(state, options);
}
BENCHMARK(BM_RmatEdges)->ArgName("undirected")->Arg(0)->Arg(1);

void BM_CommunityEdges(benchmark::State& state) {
  GenerateOptions options = Options();
  options.graph = CommunityGraph{};
  options.undirected = state.range(0) != 0;
  ReadEdges(state, options);
}
BENCHMARK(BM_CommunityEdges)->ArgName("undirected")->Arg(0)->Arg(1);

void BM_Features(benchmark::State& state) {
  GenerateOptions options = Options();
  options.feature_dtype = static_cast<store::DType>(state.range(0));
  const auto rows = NewGeneratedFeatures(options, GeneratedClasses(options));
  std::vector<std::byte> out(
      static_cast<size_t>(kBlockRows * rows->item_bytes()));
  int64_t first = 0;
  for (auto _ : state) {
    rows->Compute(first, absl::MakeSpan(out));
    first = (first + kBlockRows) % (options.num_nodes - kBlockRows);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(out.size()));
}
BENCHMARK(BM_Features)
    ->ArgName("dtype")
    ->Arg(static_cast<int>(store::DType::kFloat32))
    ->Arg(static_cast<int>(store::DType::kFloat16))
    ->Arg(static_cast<int>(store::DType::kBFloat16));

}  // namespace
}  // namespace hearth::ingest

BENCHMARK_MAIN();
