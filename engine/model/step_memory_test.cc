#include "engine/model/step_memory.h"

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
