// How long sums along a batch's edges take where rows lie in slots of a cache,
// against gathering them first:
//   bazel run //kernels:aggregate_benchmark

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/aggregate.h"
#include "kernels/copy_rows.h"

namespace hearth::kernels {
namespace {

// The first layer of a batch of 1,024 seeds with fan-outs 10, 10, 10 on the
// R-MAT graph of tests/bench.
constexpr int64_t kSources = 223'000;
constexpr int64_t kDestinations = 62'000;
constexpr int64_t kMaxNeighbors = 16;
constexpr int64_t kDim = 128;
constexpr uint32_t kSlots = 1 << 20;

// Its edges, of which half lead to a source that no edge before led to, and its
// rows, of which nine in ten lie in slots.
struct Batch {
  Batch() {
    std::mt19937_64 random(1);
    int64_t next = kDestinations;
    for (int64_t row = 0; row < kDestinations; ++row) {
      for (auto left = random() % (kMaxNeighbors + 1); left > 0; --left) {
        const bool is_new = next < kSources && random() % 2 == 0;
        indices.push_back(
            static_cast<int32_t>(is_new ? next++ : random() % kSources));
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
    weights.resize(indices.size(), 0.25F);
    uint32_t num_landed = 0;
    for (int64_t row = 0; row < kSources; ++row) {
      addresses.push_back(random() % 10 == 0
                              ? kSlots + num_landed++
                              : static_cast<uint32_t>(random() % kSlots));
    }
    landed.resize(static_cast<size_t>(num_landed) * kDim, 1);
  }

  EdgeLists lists() const { return {indptr.data(), indices.data()}; }
  AddressedRows rows() const {
    return {.slots = reinterpret_cast<const std::byte*>(slots.data()),
            .landed = reinterpret_cast<const std::byte*>(landed.data()),
            .num_slots = kSlots,
            .dim = kDim,
            .addresses = addresses.data()};
  }

  std::vector<int64_t> indptr = {0};
  std::vector<int32_t> indices;
  std::vector<float> weights;
  std::vector<uint32_t> addresses;
  // Written once, so that no page is the kernel's shared page of zeros.
  std::vector<float> slots = std::vector<float>(int64_t{kSlots} * kDim, 1);
  std::vector<float> landed;
};

const Batch& TheBatch() {
  static const auto& batch = *new Batch();
  return batch;
}

void BM_GatherAndSum(benchmark::State& state) {
  const Batch& batch = TheBatch();
  std::vector<float> matrix(kSources * kDim);
  std::vector<float> sums(kDestinations * kDim);
  for (auto _ : state) {
    GatherRows(batch.rows(), 0, kSources, matrix.data());
    WeightedSumRows(batch.lists(), {0, kDestinations}, batch.weights.data(),
                    matrix.data(), {.heads = 1, .channels = kDim}, sums.data());
    benchmark::ClobberMemory();
  }
}

// With the destinations' own rows, as GraphSAGE needs them.
void BM_SumInPlace(benchmark::State& state) {
  const Batch& batch = TheBatch();
  std::vector<float> own(kDestinations * kDim);
  std::vector<float> sums(kDestinations * kDim);
  for (auto _ : state) {
    GatherRows(batch.rows(), 0, kDestinations, own.data());
    WeightedSumRows(batch.lists(), {0, kDestinations}, batch.weights.data(),
                    batch.rows(), sums.data());
    benchmark::ClobberMemory();
  }
}

BENCHMARK(BM_GatherAndSum)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SumInPlace)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::kernels

BENCHMARK_MAIN();
