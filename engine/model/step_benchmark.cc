#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <memory>
#include <vector>

#include "engine/base/random.h"
#include "engine/model/new_train_step.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

// Steps on a synthetic batch of the default shape: fan-outs 10, 10, 10, 1,024
// seeds, 1,024 features, 256 hidden, 45 classes.

namespace hearth::model {
namespace {

constexpr int64_t kFeatureDim = 1024;
constexpr int64_t kClasses = 45;
// Nodes after each hop, as sampling a sparse graph (about 3 neighbors per node)
// gives them.
constexpr int64_t kNodes[] = {1024, 5000, 20000, 60000};

// A batch and the arrays that a view of it refers to.
struct SyntheticBatch {
  sample::MiniBatch sample;
  std::unique_ptr<float[], decltype(&free)> inputs{nullptr, &free};
  std::vector<int32_t> labels;

  train::BatchView View() const {
    return {.sample = sample,
            .inputs = inputs.get(),
            .feature_dim = kFeatureDim,
            .labels = labels};
  }
};

// Each destination has 1 to 10 sources; new ones come in turn, so that all are
// used.
sample::Block MakeBlock(int64_t sources, int64_t destinations,
                        RandomStream& random) {
  sample::Block block;
  block.num_sources = sources;
  block.num_destinations = destinations;
  block.indptr = {0};
  int64_t next = destinations;
  for (int64_t row = 0; row < destinations; ++row) {
    const uint64_t count = 1 + random.Below(7);
    for (uint64_t i = 0; i < count; ++i) {
      const bool fresh = next < sources && random.Below(4) != 0;
      block.indices.push_back(static_cast<int32_t>(
          fresh ? next++ : static_cast<int64_t>(random.Below(sources))));
    }
    block.indptr.push_back(static_cast<int64_t>(block.indices.size()));
  }
  return block;
}

SyntheticBatch MakeBatch() {
  RandomStream random(1, RandomPurpose::kGenerator);
  SyntheticBatch batch;
  batch.sample.num_seeds = kNodes[0];
  batch.sample.input_nodes.resize(kNodes[3]);
  batch.sample.in_degrees.assign(kNodes[3], 12);
  for (int layer = 3; layer > 0; --layer) {
    batch.sample.blocks.push_back(
        MakeBlock(kNodes[layer], kNodes[layer - 1], random));
  }
  const int64_t count = kNodes[3] * kFeatureDim;
  batch.inputs.reset(
      static_cast<float*>(aligned_alloc(64, count * sizeof(float))));
  for (int64_t i = 0; i < count; ++i) {
    batch.inputs[i] = random.UniformFloat() - 0.5f;
  }
  for (int64_t i = 0; i < kNodes[0]; ++i) {
    batch.labels.push_back(static_cast<int32_t>(random.Below(kClasses)));
  }
  return batch;
}

void RunStep(benchmark::State& state, const train::ModelOptions& model,
             bool train) {
  static const auto* const batch = new SyntheticBatch(MakeBatch());
  train::TrainOptions options;
  options.model = model;
  options.dropout = 0.2;
  options.train_threads = static_cast<int>(state.range(0));
  auto step = NewTrainStep(
      options,
      {.feature_dim = kFeatureDim, .num_classes = kClasses, .num_layers = 3});
  if (!step.ok()) {
    state.SkipWithError(std::string(step.status().message()).c_str());
    return;
  }
  uint64_t number = 0;
  for (auto _ : state) {
    const auto result =
        train ? (*step)->Train(batch->View(), {.epoch = 0, .batch = number++})
              : (*step)->Evaluate(batch->View());
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
