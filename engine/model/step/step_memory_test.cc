#include "engine/model/layers/step_memory.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "engine/base/process.h"
#include "engine/model/layers/model_kind.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/safetensors.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

constexpr train::ModelShape kShape = {
    .feature_dim = 100, .label_width = 7, .num_layers = 2};
const sample::BatchShape kBatch = {.nodes = {10'000, 2'000, 100},
                                   .edges = {20'000, 2'000}};

uint64_t Bytes(const train::ModelOptions& model,
               const sample::BatchShape& batch) {
  return StepMemoryBytes({.model = model,
                          .optimizer = train::AdamOptions{},
                          .schedule = train::ConstantSchedule{}},
                         kShape, batch);
}

TEST(StepMemoryTest, HoldsWhatMustBeThereAtOnce) {
  const sample::BatchShape none = {.nodes = {0, 0, 0}, .edges = {0, 0}};
  const uint64_t tensors = Bytes(train::SageOptions{.hidden = 64}, kBatch) -
                           Bytes(train::SageOptions{.hidden = 64}, none);
  // Products of all sources, or sums of all inputs, and outputs of layer 1.
  EXPECT_GT(tensors, 4 * (2'000 * 100 + 2'000 * 64));
  EXPECT_LT(tensors, 40 * (10'000 * 64 + 2'000 * 100 + 2'000 * 64));
}

TEST(StepMemoryTest, GrowsWithBatchAndModel) {
  sample::BatchShape larger = kBatch;
  larger.nodes[0] *= 2;
  for (const train::ModelOptions& model :
       {train::ModelOptions{train::SageOptions{.hidden = 64}},
        train::ModelOptions{train::GcnOptions{.hidden = 64}},
        train::ModelOptions{train::GatOptions{.hidden = 64, .heads = 4}},
        train::ModelOptions{train::Gatv2Options{.hidden = 64, .heads = 4}},
        train::ModelOptions{train::GinOptions{.hidden = 64}},
        train::ModelOptions{train::RgcnOptions{.hidden = 64}},
        train::ModelOptions{train::RsageOptions{.hidden = 64}},
        train::ModelOptions{train::RgatOptions{.hidden = 64, .heads = 4}}}) {
    EXPECT_GT(Bytes(model, larger), Bytes(model, kBatch));
  }
  EXPECT_GT(Bytes(train::SageOptions{.hidden = 128}, kBatch),
            Bytes(train::SageOptions{.hidden = 64}, kBatch));
  EXPECT_GT(Bytes(train::GatOptions{.hidden = 64, .heads = 8}, kBatch),
            Bytes(train::GatOptions{.hidden = 64, .heads = 4}, kBatch));
}

train::ModelShape TwoTypes() {
  train::ModelShape shape = kShape;
  shape.node_types = {{.name = "a", .feature_dim = 100},
                      {.name = "b", .feature_dim = 40}};
  shape.edge_types = {{.name = "r", .source = 0, .destination = 0}};
  return shape;
}

// Bytes of the tensors whose names begin with `prefix`.
uint64_t BytesOf(const store::TensorMap& state, const std::string& prefix) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : state) {
    if (absl::StartsWith(name, prefix)) bytes += tensor.data.size();
  }
  return bytes;
}

std::vector<train::ModelShape> SomeShapes() {
  std::vector<train::ModelShape> shapes;
  for (const int64_t layers : {1, 2, 3}) {
    shapes.push_back(
        {.feature_dim = 20, .label_width = 7, .num_layers = layers});
  }
  train::ModelShape equal = TwoTypes();
  equal.node_types[1].feature_dim = equal.feature_dim;
  equal.edge_types.push_back({.name = "s", .source = 1, .destination = 0});
  train::ModelShape typed = TwoTypes();
  typed.edge_types = equal.edge_types;
  // Nothing leads to b, so that s has no sources in the second layer.
  typed.num_layers = 3;
  train::ModelShape both_ways = typed;
  both_ways.edge_types.push_back({.name = "t", .source = 0, .destination = 1});
  shapes.insert(shapes.end(), {equal, typed, both_ways});
  return shapes;
}

// Memory is reserved by arithmetic, before there is a model.
TEST(StepMemoryTest, KnowsTheNumberOfParametersExactly) {
  for (const train::ModelOptions& model :
       {train::ModelOptions{train::SageOptions{.hidden = 24}},
        train::ModelOptions{train::GcnOptions{.hidden = 24}},
        train::ModelOptions{train::GatOptions{.hidden = 24, .heads = 1}},
        train::ModelOptions{train::GatOptions{.hidden = 24, .heads = 6}},
        train::ModelOptions{train::Gatv2Options{.hidden = 24, .heads = 1}},
        train::ModelOptions{train::Gatv2Options{.hidden = 24, .heads = 6}},
        train::ModelOptions{train::GinOptions{.hidden = 24}},
        train::ModelOptions{train::RgcnOptions{.hidden = 24}},
        train::ModelOptions{train::RgcnOptions{.hidden = 24, .bases = 5}},
        train::ModelOptions{train::RsageOptions{.hidden = 24}},
        train::ModelOptions{train::RgatOptions{.hidden = 24, .heads = 1}},
        train::ModelOptions{train::RgatOptions{.hidden = 24, .heads = 6}}}) {
    for (train::ModelShape shape : SomeShapes()) {
      if (!CheckTypes(model, shape).ok()) continue;
      for (const int64_t trainers : {1, 2}) {
        shape.trainers = trainers;
        train::TrainOptions options;
        options.model = model;
        const auto step = NewTrainStep(options, shape);
        ASSERT_TRUE(step.ok()) << step.status();
        const uint64_t told = (*step)->ParameterBytes();
        const auto state = (*step)->Save();
        ASSERT_TRUE(state.ok()) << state.status();
        EXPECT_EQ(told, BytesOf(*state, "model."))
            << train::Name(model) << ", " << shape.num_layers << " layers, "
            << shape.edge_types.size() << " edge types";
      }
    }
  }
}

TEST(StepMemoryTest, CountsTheStateOfTheOptimizer) {
  const std::vector<std::pair<train::OptimizerOptions, uint64_t>> optimizers = {
      {train::AdamOptions(), 2},
      {train::AdamWOptions(), 2},
      {train::SgdOptions(), 0},
      {train::SgdOptions{.momentum = 0.9}, 1}};
  uint64_t without = 0;
  for (const auto& [optimizer, moments] : optimizers) {
    train::TrainOptions options;
    options.model = train::SageOptions{.hidden = 512};
    options.optimizer = optimizer;
    // Early stopping keeps two more copies of what is saved.
    for (const auto& [keeps_best, saved] : {std::pair(false, 1), {true, 3}}) {
      train::ModelShape shape = kShape;
      shape.keeps_best = keeps_best;
      const auto step = NewTrainStep(options, shape);
      ASSERT_TRUE(step.ok()) << step.status();
      const auto state = (*step)->Save();
      ASSERT_TRUE(state.ok()) << state.status();
      const uint64_t parameters = (*step)->ParameterBytes();
      // And the number of steps.
      EXPECT_EQ(BytesOf(*state, "optimizer."),
                moments * parameters + sizeof(int64_t));
      EXPECT_GE((*step)->KeptBytes(),
                (2 + moments + saved * (1 + moments)) * parameters);
      if (moments == 0 && !keeps_best) without = (*step)->KeptBytes();
    }
  }
  EXPECT_LT(without,
            KeptMemoryBytes({.model = train::SageOptions{.hidden = 512},
                             .optimizer = train::AdamOptions(),
                             .schedule = train::ConstantSchedule()},
                            kShape));
}

// What a model's copy takes instead of a step's memory, it does not take
// besides.
TEST(StepMemoryTest, ACopyIsNotBesideAStepsMemory) {
  constexpr uint64_t kSlack = uint64_t{16} << 20;
  train::ModelShape shape = {
      .feature_dim = 256, .label_width = 7, .num_layers = 2};
  train::TrainOptions options;
  options.model = train::SageOptions{.hidden = 512};
  const SyntheticBatch batch = MakeBatch({.nodes = {1'000, 40'000, 60'000},
                                          .max_neighbors = 4,
                                          .feature_dim = shape.feature_dim,
                                          .label_width = shape.label_width});
  const uint64_t before = ReadProcessMemory().anonymous_bytes;
  const auto step = NewTrainStep(options, shape);
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_TRUE((*step)->Train({{batch.View()}}, {}).ok());
  // The step's memory stays for the next one.
  EXPECT_GT(ReadProcessMemory().anonymous_bytes,
            before + (*step)->KeptBytes() + 2 * kSlack);
  const auto state = (*step)->Save();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_LT(ReadProcessMemory().anonymous_bytes,
            before + (*step)->KeptBytes() + kSlack);
  ASSERT_TRUE((*step)->Train({{batch.View()}}, {}).ok());
  const auto exported = (*step)->Export();
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_LT(ReadProcessMemory().anonymous_bytes,
            before + (*step)->KeptBytes() + kSlack);
}

// Such a model cannot be made: only its size can be told.
TEST(StepMemoryTest, NothingOverflowsAndNothingIsMade) {
  constexpr int64_t kMost = 1 << 20;
  train::ModelShape shape = {.feature_dim = kMost,
                             .label_width = INT32_MAX,
                             .num_layers = 64,
                             .trainers = train::kMaxTrainers};
  const sample::BatchShape batch = {
      .nodes = std::vector<int64_t>(65, int64_t{1} << 40),
      .edges = std::vector<int64_t>(64, int64_t{1} << 44)};
  for (const train::ModelOptions& model :
       {train::ModelOptions{train::SageOptions{.hidden = kMost}},
        train::ModelOptions{train::GcnOptions{.hidden = kMost}},
        train::ModelOptions{train::GatOptions{.hidden = kMost, .heads = kMost}},
        train::ModelOptions{
            train::Gatv2Options{.hidden = kMost, .heads = kMost}},
        train::ModelOptions{train::GinOptions{.hidden = kMost}},
        train::ModelOptions{
            train::RgcnOptions{.hidden = kMost, .bases = kMost}},
        train::ModelOptions{train::RsageOptions{.hidden = kMost}},
        train::ModelOptions{
            train::RgatOptions{.hidden = kMost, .heads = kMost}}}) {
    train::TrainOptions options;
    options.model = model;
    const auto step = NewTrainStep(options, shape);
    ASSERT_TRUE(step.ok()) << step.status();
    // 2^20 squared floats in each layer at least.
    EXPECT_GE((*step)->ParameterBytes(), uint64_t{62} << 42) << Name(model);
    EXPECT_GE((*step)->KeptBytes(), (*step)->ParameterBytes()) << Name(model);
    EXPECT_GE((*step)->MemoryBytes(batch), (*step)->KeptBytes()) << Name(model);
    EXPECT_LE((*step)->MemoryBytes(batch),
              train::kMaxTrainers * kMostMemoryBytes);
    EXPECT_EQ(StepMemoryBytes(options, shape, batch), kMostMemoryBytes)
        << Name(model);
  }
}

TEST(StepMemoryTest, GrowsWithRelations) {
  const train::ModelShape one = TwoTypes();
  train::ModelShape two = one;
  two.edge_types.push_back({.name = "s", .source = 0, .destination = 0});
  for (const train::ModelOptions& model :
       {train::ModelOptions{train::RgcnOptions{.hidden = 64}},
        train::ModelOptions{train::RsageOptions{.hidden = 64}},
        train::ModelOptions{train::RgatOptions{.hidden = 64, .heads = 4}}}) {
    train::TrainOptions options;
    options.model = model;
    EXPECT_GT(StepMemoryBytes(options, two, kBatch),
              StepMemoryBytes(options, one, kBatch));
    EXPECT_GT(KeptMemoryBytes(options, two), KeptMemoryBytes(options, one));
  }
}

}  // namespace
}  // namespace hearth::model
