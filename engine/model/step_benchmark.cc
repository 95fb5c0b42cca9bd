#include <benchmark/benchmark.h>

#include <string>

#include "engine/model/new_train_step.h"
#include "engine/model/synthetic_batch.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

// Steps on a synthetic batch of the default shape: fan-outs 10, 10, 10, 1,024
// seeds, 1,024 features, 256 hidden, 45 classes.

namespace hearth::model {
namespace {

constexpr int64_t kFeatureDim = 1024;
constexpr int64_t kClasses = 45;

// Nodes per hop as in a sparse graph, of about 3 neighbors per node.
const SyntheticShape kShape = {.nodes = {1024, 5000, 20000, 60000},
                               .max_neighbors = 8,
                               .feature_dim = kFeatureDim,
                               .label_width = kClasses,
                               .seed = 1};

void RunStep(benchmark::State& state, const train::ModelOptions& model,
             bool train) {
  static const auto* const batch = new SyntheticBatch(MakeBatch(kShape));
  train::TrainOptions options;
  options.model = model;
  options.dropout = 0.2;
  options.train_threads = static_cast<int>(state.range(0));
  auto step = NewTrainStep(
      options,
      {.feature_dim = kFeatureDim, .label_width = kClasses, .num_layers = 3});
  if (!step.ok()) {
    state.SkipWithError(std::string(step.status().message()).c_str());
    return;
  }
  uint64_t number = 0;
  for (auto _ : state) {
    const auto result =
        train ? (*step)->Train({batch->View()}, {.epoch = 0, .batch = number++})
              : (*step)->Evaluate({batch->View()});
    if (!result.ok()) {
      state.SkipWithError(std::string(result.status().message()).c_str());
      return;
    }
  }
}

void TrainSage(benchmark::State& state) {
  RunStep(state, train::SageOptions{}, /*train=*/true);
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
