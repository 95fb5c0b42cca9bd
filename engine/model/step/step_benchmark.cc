#include <benchmark/benchmark.h>

#include <string>

#include "engine/model/step/new_train_step.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

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

void RunStep(benchmark::State& state, const train::ModelOptions& model,
             bool train, bool dense = false,
             train::Precision precision = train::Precision::kFloat32) {
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
  for (auto _ : state) {
    const auto result =
        train ? (*step)->Train({batch.View()}, {.epoch = 0, .batch = number++})
              : (*step)->Evaluate({batch.View()});
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
