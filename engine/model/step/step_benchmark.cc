#include <benchmark/benchmark.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/io/aligned_memory.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/store/array_type.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "kernels/copy_rows.h"

// Benchmarks of steps on synthetic batches of 1,024 seeds and fan-outs 10, 10,
// 10, with 256 hidden columns and 45 classes. The argument is the number of
// threads.

namespace hearth::model {
namespace {

constexpr int64_t kClasses = 45;

// A sparse graph with wide rows, about 3 neighbors per node: WordNet.
SyntheticShape WideShape() {
  return {.nodes = {1024, 5000, 20000, 60000},
          .max_neighbors = 8,
          .feature_dim = 1024,
          .label_width = kClasses,
          .seed = 1};
}

// A dense graph with narrow rows, 15 neighbors per node: the R-MAT graph of
// tests/bench.
SyntheticShape DenseShape() {
  return {.nodes = {1024, 9000, 62000, 223000},
          .max_neighbors = 16,
          .feature_dim = 128,
          .label_width = kClasses,
          .seed = 1};
}

// Batches are kept, because making one takes seconds.
const SyntheticBatch& Batch(bool dense) {
  static const auto* const wide_batch =
      new SyntheticBatch(MakeBatch(WideShape()));
  static const auto* const dense_batch =
      new SyntheticBatch(MakeBatch(DenseShape()));
  return dense ? *dense_batch : *wide_batch;
}

// The same with their rows in place.
const PlacedBatch& Placed(bool dense) {
  static const auto* const wide_batch =
      new PlacedBatch(Batch(false), store::DType::kFloat32);
  static const auto* const dense_batch =
      new PlacedBatch(Batch(true), store::DType::kFloat32);
  return dense ? *dense_batch : *wide_batch;
}

// Copies all rows to one matrix, by as many threads.
void Gather(const train::RowsInPlace& rows, int64_t count, int threads,
            float* matrix) {
  const kernels::AddressedRows source = {.slots = rows.slots,
                                         .landed = rows.landed,
                                         .num_slots = rows.num_slots,
                                         .dim = rows.format.dim,
                                         .addresses = rows.addresses};
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&source, count, threads, i, matrix] {
      const int64_t first = count * i / threads;
      kernels::GatherRows(source, first, count * (i + 1) / threads - first,
                          matrix + first * source.dim);
    });
  }
}

// How a step's rows come: in one matrix, gathered into one by the same threads
// as part of the step, or in place.
enum class Rows { kMatrix, kGathered, kInPlace };

void RunStep(benchmark::State& state, const train::ModelOptions& model,
             bool train, bool dense = false,
             train::Precision precision = train::Precision::kFloat32,
             Rows rows = Rows::kMatrix) {
  const SyntheticBatch& batch = Batch(dense);
  train::TrainOptions options;
  options.model = model;
  options.dropout = 0.2;
  options.precision = precision;
  options.train_threads = static_cast<int>(state.range(0));
  auto step = NewTrainStep(options, {.feature_dim = batch.feature_dim,
                                     .label_width = kClasses,
                                     .num_layers = 3});
  if (!step.ok()) {
    state.SkipWithError(std::string(step.status().message()).c_str());
    return;
  }
  uint64_t number = 0;
  io::AlignedMemory memory;
  if (rows == Rows::kGathered) {
    memory = *io::AlignedMemory::Allocate(
        batch.sample.input_nodes.size() *
        static_cast<uint64_t>(batch.feature_dim) * sizeof(float));
  }
  auto* const matrix = reinterpret_cast<float*>(memory.bytes().data());
  const train::BatchView as_given =
      rows == Rows::kMatrix ? batch.View() : Placed(dense).View();
  const auto run = [&] {
    train::BatchView view = as_given;
    if (rows == Rows::kGathered) {
      Gather(*view.rows, std::ssize(batch.sample.input_nodes),
             static_cast<int>(state.range(0)), matrix);
      view.inputs = matrix;
      view.rows = std::nullopt;
    }
    return train ? (*step)->Train({view}, {.epoch = 0, .batch = number++})
                 : (*step)->Evaluate({view});
  };
  // The first step takes the pages of its memory.
  (void)run();
  for (auto _ : state) {
    const auto result = run();
    if (!result.ok()) {
      state.SkipWithError(std::string(result.status().message()).c_str());
      return;
    }
  }
}

void TrainSage(benchmark::State& state) {
  RunStep(state, train::SageOptions{}, /*train=*/true);
}
void TrainSageDense(benchmark::State& state) {
  RunStep(state, train::SageOptions{}, /*train=*/true, /*dense=*/true);
}
void TrainSageHidden(benchmark::State& state, Rows rows) {
  RunStep(state, train::SageOptions{.hidden = state.range(1)}, /*train=*/true,
          /*dense=*/true, train::Precision::kFloat32, rows);
}
void TrainSageMatrix(benchmark::State& state) {
  TrainSageHidden(state, Rows::kMatrix);
}
void TrainSageGathered(benchmark::State& state) {
  TrainSageHidden(state, Rows::kGathered);
}
void TrainSageInPlace(benchmark::State& state) {
  TrainSageHidden(state, Rows::kInPlace);
}
void TrainSageBfloat16(benchmark::State& state) {
  RunStep(state, train::SageOptions{}, /*train=*/true, /*dense=*/false,
          train::Precision::kBfloat16);
}
void TrainSageDenseBfloat16(benchmark::State& state) {
  RunStep(state, train::SageOptions{}, /*train=*/true, /*dense=*/true,
          train::Precision::kBfloat16);
}
void TrainGatBfloat16(benchmark::State& state) {
  RunStep(state, train::GatOptions{}, /*train=*/true, /*dense=*/false,
          train::Precision::kBfloat16);
}
void TrainGcn(benchmark::State& state) {
  RunStep(state, train::GcnOptions{}, /*train=*/true);
}
void TrainGat(benchmark::State& state) {
  RunStep(state, train::GatOptions{}, /*train=*/true);
}
void TrainGatv2(benchmark::State& state) {
  RunStep(state, train::Gatv2Options{}, /*train=*/true);
}
void TrainGin(benchmark::State& state) {
  RunStep(state, train::GinOptions{}, /*train=*/true);
}
void TrainRgcn(benchmark::State& state) {
  RunStep(state, train::RgcnOptions{}, /*train=*/true);
}
void TrainRsage(benchmark::State& state) {
  RunStep(state, train::RsageOptions{}, /*train=*/true);
}
void TrainRgat(benchmark::State& state) {
  RunStep(state, train::RgatOptions{}, /*train=*/true);
}
void EvaluateSage(benchmark::State& state) {
  RunStep(state, train::SageOptions{}, /*train=*/false);
}

BENCHMARK(TrainSage)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainSageDense)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
// (threads, hidden columns)
BENCHMARK(TrainSageMatrix)
    ->ArgsProduct({{1, 2}, {16, 256}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainSageGathered)
    ->ArgsProduct({{1, 2}, {16, 256}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainSageInPlace)
    ->ArgsProduct({{1, 2}, {16, 256}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainSageBfloat16)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainSageDenseBfloat16)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainGatBfloat16)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainGcn)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(
    benchmark::kMillisecond);
BENCHMARK(TrainGat)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(
    benchmark::kMillisecond);
BENCHMARK(TrainGatv2)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainGin)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(
    benchmark::kMillisecond);
BENCHMARK(TrainRgcn)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(
    benchmark::kMillisecond);
BENCHMARK(TrainRsage)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(TrainRgat)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(
    benchmark::kMillisecond);
BENCHMARK(EvaluateSage)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::model

int main(int argc, char** argv) {
  hearth::model::InitializeTorch(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
