#include "engine/train/train_step.h"

#include <bit>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kFeatureDim = 40;
constexpr int64_t kClasses = 6;
constexpr int64_t kLayers = 3;

// A batch large enough for several threads to share each operation.
SyntheticBatch Batch(uint64_t seed,
                     store::LabelKind kind = store::LabelKind::kClasses) {
  return MakeBatch({.nodes = {100, 500, 1500, 4000},
                    .max_neighbors = 8,
                    .feature_dim = kFeatureDim,
                    .label_kind = kind,
                    .label_width = kClasses,
                    .seed = seed});
}

std::unique_ptr<train::TrainStep> NewStep(
    const train::TrainOptions& options,
    store::LabelKind kind = store::LabelKind::kClasses) {
  auto step = NewTrainStep(options, {.feature_dim = kFeatureDim,
                                     .label_kind = kind,
                                     .label_width = kClasses,
                                     .num_layers = kLayers});
  EXPECT_TRUE(step.ok()) << step.status();
  return *std::move(step);
}

train::TrainOptions Options(const train::ModelOptions& model, int threads = 2) {
  train::TrainOptions options;
  options.model = model;
  options.dropout = 0.2;
  options.model_seed = 7;
  options.train_threads = threads;
  return options;
}

std::vector<train::ModelOptions> AllModels() {
  return {train::SageOptions{.hidden = 32},
          train::GcnOptions{.hidden = 32},
          train::GatOptions{.hidden = 32, .heads = 4},
          train::Gatv2Options{.hidden = 32, .heads = 4},
          train::GinOptions{.hidden = 32},
          train::RgcnOptions{.hidden = 32, .bases = 2},
          train::RsageOptions{.hidden = 32},
          train::RgatOptions{.hidden = 32, .heads = 4}};
}

// Whether a node's own row is an input of its scores.
bool SeesTheNodeItself(const train::ModelOptions& model) {
  return !std::holds_alternative<train::RsageOptions>(model) &&
         !std::holds_alternative<train::RgatOptions>(model);
}

// Losses of batches first .. first + count - 1.
std::vector<float> Losses(train::TrainStep& step, uint64_t first,
                          uint64_t count,
                          store::LabelKind kind = store::LabelKind::kClasses) {
  std::vector<float> losses;
  for (uint64_t i = first; i < first + count; ++i) {
    const auto result =
        step.Train({Batch(i, kind).View()}, {.epoch = 0, .batch = i});
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) losses.push_back(result->loss);
  }
  return losses;
}

std::vector<float> LossesOfNewStep(const train::TrainOptions& options) {
  return Losses(*NewStep(options), 0, 8);
}

TEST(TrainStepTest, ThreadsAndRepetitionChangeNoBit) {
  for (const train::ModelOptions& model : AllModels()) {
    const std::vector<float> losses = LossesOfNewStep(Options(model, 1));
    EXPECT_EQ(LossesOfNewStep(Options(model, 1)), losses);
    EXPECT_EQ(LossesOfNewStep(Options(model, 2)), losses);
    EXPECT_EQ(LossesOfNewStep(Options(model, 5)), losses);
  }
}

// What a step computes of four batches: losses, an evaluation, and all of its
// state.
struct Computed {
  std::vector<float> losses;
  store::TensorMap state;
};

// `dtype`: that of rows in place, which it may round; absent: dense rows.
Computed Compute(const train::TrainOptions& options,
                 std::optional<store::DType> dtype) {
  const auto step = NewStep(options);
  Computed computed;
  for (uint64_t i = 0; i < 4; ++i) {
    SyntheticBatch batch = Batch(i);
    // To numbers that bfloat16 has.
    float* const inputs = batch.inputs.get();
    const int64_t count =
        std::ssize(batch.sample.input_nodes) * batch.feature_dim;
    for (int64_t j = 0; j < count; ++j) {
      inputs[j] =
          std::bit_cast<float>(std::bit_cast<uint32_t>(inputs[j]) >> 16 << 16);
    }
    const PlacedBatch placed(batch, dtype.value_or(store::DType::kFloat32));
    const train::BatchView view =
        dtype.has_value() ? placed.View() : batch.View();
    for (const auto& result : {step->Train({view}, {.epoch = 0, .batch = i}),
                               step->Evaluate({view})}) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) computed.losses.push_back(result->loss);
    }
  }
  computed.state = *step->Save();
  return computed;
}

TEST(TrainStepTest, RowsInPlaceChangeNoBit) {
  std::vector<train::ModelOptions> models = AllModels();
  // Products come first in the first layer.
  models.push_back(train::SageOptions{.hidden = 4});
  models.push_back(train::GcnOptions{.hidden = 4});
  models.push_back(train::GinOptions{.hidden = 4});
  for (const train::ModelOptions& model : models) {
    for (const train::Precision precision :
         {train::Precision::kFloat32, train::Precision::kBfloat16}) {
      train::TrainOptions options = Options(model);
      options.precision = precision;
      if (!NewTrainStep(options, {.feature_dim = kFeatureDim,
                                  .label_width = kClasses,
                                  .num_layers = kLayers})
               .ok()) {
        continue;
      }
      const Computed dense = Compute(options, std::nullopt);
      for (const store::DType dtype :
           {store::DType::kFloat32, store::DType::kBFloat16}) {
        const Computed in_place = Compute(options, dtype);
        EXPECT_EQ(in_place.losses, dense.losses);
        ASSERT_EQ(in_place.state.size(), dense.state.size());
        for (const auto& [name, tensor] : dense.state) {
          EXPECT_EQ(in_place.state.at(name).data, tensor.data) << name;
        }
      }
    }
  }
}

TEST(TrainStepTest, OnlyWhatSumsRowsFirstTakesThemInPlace) {
  const sample::BatchShape shape = {.nodes = {4000, 1500, 500, 100},
                                    .edges = {6000, 2000, 400}};
  const auto bytes = [&](const train::ModelOptions& model) {
    return NewStep(Options(model))->BytesInPlace(shape);
  };
  // It multiplies the destinations' own rows; the pool has an eighth more.
  EXPECT_EQ(bytes(train::SageOptions{.hidden = 64}),
            1500 * kFeatureDim * sizeof(float) * 9 / 8);
  EXPECT_EQ(bytes(train::GcnOptions{.hidden = 64}), 0);
  EXPECT_EQ(bytes(train::GinOptions{.hidden = 64}), 0);
  EXPECT_EQ(bytes(train::SageOptions{.hidden = 4}), std::nullopt);
  EXPECT_EQ(bytes(train::GatOptions{.hidden = 64, .heads = 4}), std::nullopt);
  EXPECT_EQ(bytes(train::Gatv2Options{.hidden = 64, .heads = 4}), std::nullopt);
  EXPECT_EQ(bytes(train::RgcnOptions{.hidden = 64}), std::nullopt);
  EXPECT_EQ(bytes(train::RsageOptions{.hidden = 64}), std::nullopt);
  EXPECT_EQ(bytes(train::RgatOptions{.hidden = 64, .heads = 4}), std::nullopt);
  EXPECT_EQ(train::NewNullStep()->BytesInPlace(shape), std::nullopt);
}

TEST(TrainStepTest, RefusesRowsInPlaceOfAnotherWidth) {
  const SyntheticBatch batch = Batch(1);
  const PlacedBatch placed(batch, store::DType::kFloat32);
  train::BatchView view = placed.View();
  view.rows->format.dim = kFeatureDim - 1;
  const auto result = NewStep(Options(train::SageOptions{}))->Evaluate({view});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(result.status().message(), "in place"))
      << result.status();
}

TEST(TrainStepTest, Bfloat16RepeatsBitForBitAndStaysNearFloat32) {
  for (const train::ModelOptions& model : AllModels()) {
    train::TrainOptions options = Options(model, 1);
    const std::vector<float> exact = LossesOfNewStep(options);
    options.precision = train::Precision::kBfloat16;
    if (!NewTrainStep(options, {.feature_dim = kFeatureDim,
                                .label_width = kClasses,
                                .num_layers = kLayers})
             .ok()) {
      GTEST_SKIP() << "this processor has no products of bfloat16";
    }
    const std::vector<float> losses = LossesOfNewStep(options);
    EXPECT_NE(losses, exact);
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], exact[i], 0.02 * exact[i]);
    }
    options.train_threads = 3;
    EXPECT_EQ(LossesOfNewStep(options), losses);
  }
}

TEST(TrainStepTest, ModelsBesideEachOtherGiveWhatTheyGiveAlone) {
  std::vector<train::TrainOptions> all;
  for (const train::ModelOptions& model : AllModels()) {
    for (const int threads : {1, 3}) all.push_back(Options(model, threads));
  }
  std::vector<std::vector<float>> alone;
  for (const auto& options : all) alone.push_back(LossesOfNewStep(options));
  std::vector<std::vector<float>> beside(all.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] { beside[i] = LossesOfNewStep(all[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(beside, alone);
}

TEST(TrainStepTest, LoadedStateGoesOnBitForBit) {
  const std::vector<train::OptimizerOptions> optimizers = {
      train::AdamOptions{.weight_decay = 0.01}, train::AdamWOptions{},
      train::SgdOptions{.momentum = 0.9}};
  for (const train::ModelOptions& model : AllModels()) {
    for (const train::OptimizerOptions& optimizer : optimizers) {
      train::TrainOptions options = Options(model);
      options.optimizer = optimizer;
      const auto undisturbed = NewStep(options);
      Losses(*undisturbed, 0, 3);
      const auto saved = undisturbed->Save();
      ASSERT_TRUE(saved.ok());
      const std::vector<float> expected = Losses(*undisturbed, 3, 3);

      options.model_seed = 7;
      const auto resumed = NewStep(options);
      Losses(*resumed, 5, 1);
      ASSERT_TRUE(resumed->Load(*saved).ok());
      EXPECT_EQ(Losses(*resumed, 3, 3), expected);
    }
  }
}

// The learning rate of a step depends on its number, which is part of the
// state.
TEST(TrainStepTest, SchedulesGoOnBitForBit) {
  for (const train::Schedule& schedule :
       {train::Schedule(train::CosineSchedule{}),
        train::Schedule(train::StepSchedule{.epochs = 1, .gamma = 0.1})}) {
    train::TrainOptions options = Options(train::SageOptions{.hidden = 16});
    options.schedule = schedule;
    options.warmup_epochs = 1;
    const train::ModelShape shape = {.feature_dim = kFeatureDim,
                                     .label_width = kClasses,
                                     .num_layers = kLayers,
                                     .epoch_steps = 2,
                                     .epochs = 3};
    const auto undisturbed = NewTrainStep(options, shape);
    ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();
    Losses(**undisturbed, 0, 3);
    const auto saved = (*undisturbed)->Save();
    ASSERT_TRUE(saved.ok());
    const std::vector<float> expected = Losses(**undisturbed, 3, 3);
    const auto resumed = NewTrainStep(options, shape);
    ASSERT_TRUE((*resumed)->Load(*saved).ok());
    EXPECT_EQ(Losses(**resumed, 3, 3), expected);
    options.schedule = train::ConstantSchedule{};
    const auto constant = NewTrainStep(options, shape);
    ASSERT_TRUE((*constant)->Load(*saved).ok());
    EXPECT_NE(Losses(**constant, 3, 3), expected);
  }
}

TEST(TrainStepTest, ClippingBoundsTheStepForAnyNumberOfThreads) {
  const auto losses = [](double clip_norm, int threads) {
    train::TrainOptions options =
        Options(train::SageOptions{.hidden = 32}, threads);
    options.optimizer = train::SgdOptions{.learning_rate = 0.1};
    options.clip_norm = clip_norm;
    return LossesOfNewStep(options);
  };
  EXPECT_EQ(losses(0.01, 1), losses(0.01, 5));
  EXPECT_NE(losses(0.01, 1), losses(0, 1));
  // No gradient is that long.
  EXPECT_EQ(losses(1e6, 1), losses(0, 1));
}

TEST(TrainStepTest, LearnsLabelsThatFeaturesTell) {
  SyntheticBatch batch = MakeBatch({.nodes = {100, 150, 200, 250},
                                    .max_neighbors = 2,
                                    .feature_dim = kFeatureDim,
                                    .label_width = kClasses,
                                    .seed = 1});
  std::vector<int32_t> classes;
  for (size_t seed = 0; seed < 100; ++seed) {
    classes.push_back(batch.inputs[seed * kFeatureDim] > 0);
  }
  batch.labels = store::Labels::Classes(std::move(classes), kClasses);
  for (const train::ModelOptions& model : AllModels()) {
    if (!SeesTheNodeItself(model)) continue;
    train::TrainOptions options = Options(model);
    options.optimizer = train::AdamOptions{.learning_rate = 0.01};
    const auto step = NewStep(options);
    for (uint64_t i = 0; i < 150; ++i) {
      ASSERT_TRUE(step->Train({batch.View()}, {.epoch = i, .batch = 0}).ok());
    }
    const auto result = step->Evaluate({batch.View()});
    ASSERT_TRUE(result.ok());
    EXPECT_LT(result->loss, 0.2);
    EXPECT_GE(result->tally.num_correct, 95);
    EXPECT_EQ(result->num_seeds, 100);
  }
}

// Labels or targets that follow from the features, as many as there are
// classes.
SyntheticBatch TellingBatch(store::LabelKind kind) {
  SyntheticBatch batch = MakeBatch({.nodes = {100, 150, 200, 250},
                                    .max_neighbors = 2,
                                    .feature_dim = kFeatureDim,
                                    .label_kind = kind,
                                    .label_width = kClasses,
                                    .seed = 1});
  std::vector<float> targets;
  std::vector<uint8_t> bits(100);
  for (size_t i = 0; i < 100 * kClasses; ++i) {
    const size_t row = i / kClasses;
    const size_t column = i % kClasses;
    const float value = batch.inputs[row * kFeatureDim + column];
    targets.push_back(value / 2);
    bits[row] |= static_cast<uint8_t>((value > 0) << column);
    bits[row] |= 1 << kClasses;
  }
  batch.labels = kind == store::LabelKind::kTargets
                     ? store::Labels::Targets(targets, 100, kClasses)
                     : store::Labels::MultiLabel(bits, 100, kClasses);
  return batch;
}

TEST(TrainStepTest, LearnsLabelsAndTargetsThatFeaturesTell) {
  for (const auto kind :
       {store::LabelKind::kMultiLabel, store::LabelKind::kTargets}) {
    const SyntheticBatch batch = TellingBatch(kind);
    train::TrainOptions options = Options(train::SageOptions{.hidden = 64});
    options.dropout = 0;
    options.optimizer = train::AdamOptions{.learning_rate = 0.01};
    const auto step = NewStep(options, kind);
    for (uint64_t i = 0; i < 150; ++i) {
      ASSERT_TRUE(step->Train({batch.View()}, {.epoch = i, .batch = 0}).ok());
    }
    const auto result = step->Evaluate({batch.View()});
    ASSERT_TRUE(result.ok());
    const double value = result->tally.Value(train::MetricFor(kind));
    if (kind == store::LabelKind::kTargets) {
      EXPECT_LT(value, 0.01);
      EXPECT_FLOAT_EQ(static_cast<float>(value), result->loss);
    } else {
      EXPECT_GT(value, 0.95);
    }
  }
}

TEST(TrainStepTest, ThreadsChangeNoBitWithAnyKindOfLabels) {
  for (const auto kind :
       {store::LabelKind::kMultiLabel, store::LabelKind::kTargets}) {
    std::vector<std::vector<float>> losses;
    for (const int threads : {1, 2, 5}) {
      const auto step =
          NewStep(Options(train::GcnOptions{.hidden = 32}, threads), kind);
      losses.push_back(Losses(*step, 0, 4, kind));
    }
    EXPECT_EQ(losses[1], losses[0]);
    EXPECT_EQ(losses[2], losses[0]);
  }
}

train::BatchResult FirstStep(const train::TrainOptions& options,
                             const std::vector<int64_t>& class_counts) {
  auto step = NewTrainStep(options, {.feature_dim = kFeatureDim,
                                     .label_width = kClasses,
                                     .num_layers = kLayers,
                                     .class_counts = class_counts});
  EXPECT_TRUE(step.ok()) << step.status();
  const auto result = (*step)->Train({Batch(1).View()}, {});
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(TrainStepTest, BalancedWeightsAreThoseOfTheTrainingNodes) {
  train::TrainOptions options = Options(train::SageOptions{.hidden = 16});
  const std::vector<int64_t> counts = {100, 200, 300, 400, 500, 0};
  const train::BatchResult plain = FirstStep(options, counts);
  EXPECT_EQ(plain.weight, 100);
  options.class_weights.balanced = true;
  const train::BatchResult balanced = FirstStep(options, counts);
  options.class_weights = train::ClassWeights{
      .values = {3, 1.5, 1, 0.75, static_cast<double>(0.6f), 1}};
  const train::BatchResult listed = FirstStep(options, {});
  EXPECT_EQ(balanced.loss, listed.loss);
  EXPECT_EQ(balanced.weight, listed.weight);
  EXPECT_NE(balanced.loss, plain.loss);
  // Metrics ignore class weights.
  EXPECT_EQ(balanced.tally.num_correct, plain.tally.num_correct);
}

TEST(TrainStepTest, RefusesWhatDoesNotFitTheLabels) {
  const auto error_of = [](const train::TrainOptions& options,
                           store::LabelKind kind) {
    const auto step = NewTrainStep(options, {.feature_dim = kFeatureDim,
                                             .label_kind = kind,
                                             .label_width = kClasses,
                                             .num_layers = kLayers});
    EXPECT_EQ(step.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(step.status().message());
  };
  train::TrainOptions options = Options(train::SageOptions{.hidden = 16});
  options.metric = train::Metric::kRocAuc;
  EXPECT_THAT(error_of(options, store::LabelKind::kTargets),
              ::testing::HasSubstr("metric: must be mse"));
  options.metric = std::nullopt;
  options.class_weights.values = {1, 2};
  EXPECT_THAT(error_of(options, store::LabelKind::kClasses),
              ::testing::HasSubstr("class_weights.values: must have"));
}

TEST(TrainStepTest, ConfigTellsTheTask) {
  const auto task = [](store::LabelKind kind) {
    const auto exported =
        NewStep(Options(train::GcnOptions{.hidden = 8}), kind)->Export();
    const auto config = nlohmann::json::parse(exported->metadata.at("config"));
    EXPECT_EQ(config["out_channels"], kClasses);
    return config["task"].get<std::string>();
  };
  EXPECT_EQ(task(store::LabelKind::kMultiLabel), "multi_label_classification");
  EXPECT_EQ(task(store::LabelKind::kTargets), "regression");
}

TEST(TrainStepTest, EvaluationChangesNothing) {
  const auto step = NewStep(Options(train::SageOptions{.hidden = 8}));
  const auto first = step->Evaluate({Batch(1).View()});
  const auto second = step->Evaluate({Batch(1).View()});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->loss, second->loss);
  EXPECT_EQ(first->tally.num_correct, second->tally.num_correct);
}

TEST(TrainStepTest, ExportsPyGsNamesAndShapes) {
  const auto exported =
      NewStep(Options(train::GatOptions{.hidden = 8, .heads = 2}))->Export();
  ASSERT_TRUE(exported.ok());
  const auto& tensors = exported->tensors;
  EXPECT_EQ(tensors.size(), 12u);
  EXPECT_THAT(tensors.at("convs.0.lin.weight").shape, ElementsAre(8, 40));
  EXPECT_THAT(tensors.at("convs.0.att_src").shape, ElementsAre(1, 2, 4));
  EXPECT_THAT(tensors.at("convs.0.bias").shape, ElementsAre(8));
  EXPECT_THAT(tensors.at("convs.2.lin.weight").shape, ElementsAre(12, 8));
  EXPECT_THAT(tensors.at("convs.2.att_dst").shape, ElementsAre(1, 2, 6));
  EXPECT_THAT(tensors.at("convs.2.bias").shape, ElementsAre(6));
  const auto config = nlohmann::json::parse(exported->metadata.at("config"));
  EXPECT_EQ(config, (nlohmann::json{{"format", "hearth-model-1"},
                                    {"task", "classification"},
                                    {"model", "gat"},
                                    {"in_channels", 40},
                                    {"hidden_channels", 8},
                                    {"out_channels", 6},
                                    {"num_layers", 3},
                                    {"heads", 2},
                                    {"dropout", 0.2}}));
}

TEST(TrainStepTest, ExportsTheConstantsOfPyGsStateDict) {
  const auto step = NewStep(Options(train::GinOptions{.hidden = 8}));
  const auto exported = step->Export();
  ASSERT_TRUE(exported.ok());
  const auto& tensors = exported->tensors;
  EXPECT_EQ(tensors.size(), 15u);
  EXPECT_THAT(tensors.at("convs.0.nn.lins.0.weight").shape, ElementsAre(8, 40));
  EXPECT_THAT(tensors.at("convs.0.nn.lins.1.weight").shape, ElementsAre(8, 8));
  EXPECT_THAT(tensors.at("convs.2.nn.lins.1.weight").shape, ElementsAre(6, 6));
  EXPECT_THAT(tensors.at("convs.2.nn.lins.1.bias").shape, ElementsAre(6));
  EXPECT_THAT(tensors.at("convs.1.eps").shape, ElementsAre(1));
  EXPECT_EQ(step->Save()->count("model.convs.1.eps"), 0u);
  const auto config = nlohmann::json::parse(exported->metadata.at("config"));
  EXPECT_EQ(config["model"], "gin");
  EXPECT_EQ(config["heads"], 0);
}

TEST(TrainStepTest, LoadNamesTheTensorAtFault) {
  const auto step = NewStep(Options(train::SageOptions{.hidden = 8}));
  const auto saved = step->Save();
  ASSERT_TRUE(saved.ok());
  const auto expect_refused = [&](const store::TensorMap& state,
                                  const std::string& name) {
    const absl::Status status = step->Load(state);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(absl::StrContains(status.message(), name)) << status;
  };
  store::TensorMap state = *saved;
  state.erase("optimizer.convs.1.lin_l.bias.exp_avg");
  expect_refused(state, "optimizer.convs.1.lin_l.bias.exp_avg");
  state = *saved;
  state["model.convs.9.bias"] = store::Tensor();
  expect_refused(state, "model.convs.9.bias");
  state = *saved;
  state["model.convs.0.lin_r.weight"].shape = {40, 8};
  expect_refused(state, "model.convs.0.lin_r.weight");
  state = *saved;
  state["optimizer.step"].dtype = store::DType::kFloat32;
  expect_refused(state, "optimizer.step");
  EXPECT_EQ(step->Save()->at("model.convs.0.lin_r.weight").data,
            saved->at("model.convs.0.lin_r.weight").data);
}

TEST(TrainStepTest, RefusesBatchesAndOptionsThatDoNotFit) {
  const auto step = NewStep(Options(train::SageOptions{.hidden = 8}));
  SyntheticBatch batch = Batch(1);
  const store::Labels labels = batch.labels;
  batch.labels =
      store::Labels::Classes(std::vector<int32_t>(100, kClasses), kClasses);
  EXPECT_EQ(step->Train({batch.View()}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  batch.labels = labels;
  batch.sample.blocks.pop_back();
  EXPECT_EQ(step->Evaluate({batch.View()}).status().code(),
            absl::StatusCode::kInvalidArgument);
  train::TrainOptions bad = Options(train::SageOptions{.hidden = 0});
  EXPECT_EQ(
      NewTrainStep(bad, {.feature_dim = 1, .label_width = 1, .num_layers = 1})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(TrainStepTest, NoModelOnlyCounts) {
  const auto step = NewStep(Options(train::NoModelOptions{}));
  const auto result = step->Train({Batch(1).View()}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->loss, 0);
  EXPECT_EQ(result->num_seeds, 100);
}

}  // namespace
}  // namespace hearth::model
