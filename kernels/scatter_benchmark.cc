// How fast rows are put to their positions, against memcpy of as many bytes
// from one place to another: the best that any copy can do.
//   bazel run //kernels:scatter_benchmark

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/copy_rows.h"

namespace hearth::kernels {
namespace {

// 512 MiB of rows and batches of 64 MiB: neither fits in a cache.
constexpr int64_t kDim = 128;
constexpr int64_t kRows = 1 << 20;
constexpr int64_t kBatchRows = 1 << 17;
constexpr int64_t kRowBytes = kDim * 4;

// Written once, so that no page is the kernel's shared page of zeros.
const std::vector<float>& Source() {
  static const auto& rows = *new std::vector<float>(kRows * kDim, 1);
  return rows;
}

const std::byte* SourceBytes() {
  return reinterpret_cast<const std::byte*>(Source().data());
}

void BM_Memcpy(benchmark::State& state) {
  std::vector<float> out(kBatchRows * kDim, 2);
  const float* source = Source().data();
  for (auto _ : state) {
    std::memcpy(out.data(), source, kBatchRows * kRowBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kBatchRows * kRowBytes);
}

// Argument: rows one after the other (0) or from ascending slots (1), as a
// batch has them, to positions in any order.
void BM_ScatterRows(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<int64_t> slots(kBatchRows);
  for (int64_t& slot : slots) {
    slot = static_cast<int64_t>(random() % kRows);
  }
  std::sort(slots.begin(), slots.end());
  std::vector<int32_t> positions(kBatchRows);
  std::iota(positions.begin(), positions.end(), 0);
  std::shuffle(positions.begin(), positions.end(), random);
  std::vector<float> out(kBatchRows * kDim, 2);
  const bool with_slots = state.range(0) != 0;
  for (auto _ : state) {
    ScatterRows({SourceBytes(), ElementType::kFloat32, kDim},
                with_slots ? slots.data() : nullptr, positions.data(),
                kBatchRows, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kBatchRows * kRowBytes);
}

BENCHMARK(BM_Memcpy)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ScatterRows)
    ->ArgName("slots")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::kernels

BENCHMARK_MAIN();
