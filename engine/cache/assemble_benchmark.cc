// How fast rows are brought together, against memcpy of as many bytes from one
// place: the best that any copy can do.
//   bazel run //engine/cache:assemble_benchmark

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/cache/assemble.h"
#include "engine/cache/row_memory.h"
#include "engine/store/array_type.h"

namespace hearth::cache {
namespace {

constexpr int64_t kDim = 128;
constexpr int64_t kRowBytes = kDim * 4;
// A gigabyte of rows and batches of 64 MiB: neither fits in a cache.
constexpr int64_t kRows = 2'000'000;
constexpr int64_t kBatchRows = 131'072;

// Written once, so that no page is the kernel's shared page of zeros.
AlignedBuffer& Filled(AlignedBuffer& buffer, int64_t bytes) {
  if (buffer.Resize(static_cast<size_t>(bytes)).ok()) {
    std::memset(buffer.data(), 1, static_cast<size_t>(bytes));
  }
  return buffer;
}

AlignedBuffer& Source() {
  static auto& buffer = *new AlignedBuffer();
  static AlignedBuffer& filled = Filled(buffer, kRows * kRowBytes);
  return filled;
}

void BM_Memcpy(benchmark::State& state) {
  AlignedBuffer out;
  Filled(out, kBatchRows * kRowBytes);
  const std::byte* source = Source().data();
  int64_t first = 0;
  for (auto _ : state) {
    std::memcpy(out.data(), source + first * kRowBytes, kBatchRows * kRowBytes);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
    first = (first + kBatchRows) % (kRows - kBatchRows);
  }
  state.SetBytesProcessed(state.iterations() * kBatchRows * kRowBytes);
}

// Argument: rows in random order (0), or in the order of the source with gaps
// (1).
void BM_AssembleRows(benchmark::State& state) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<int64_t> indices(kBatchRows);
  int64_t row = 0;
  for (int64_t& index : indices) {
    row += 1 + static_cast<int64_t>(random.Below(2 * kRows / kBatchRows - 2));
    index = state.range(0) != 0 ? row % kRows
                                : static_cast<int64_t>(random.Below(kRows));
  }
  AlignedBuffer out;
  Filled(out, kBatchRows * kRowBytes);
  const std::byte* source = Source().data();
  for (auto _ : state) {
    AssembleRows(
        StoredRows{
            .data = source, .dtype = store::DType::kFloat32, .dim = kDim},
        indices, reinterpret_cast<float*>(out.data()));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kBatchRows * kRowBytes);
}

BENCHMARK(BM_Memcpy)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_AssembleRows)
    ->ArgName("ascending")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::cache

BENCHMARK_MAIN();
