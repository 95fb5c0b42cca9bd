#include "engine/train/model_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/sample/shard_window.h"
#include "engine/store/labels.h"
#include "engine/train/metric.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::train {

namespace {

using store::LabelKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(const ClassWeights& weights, LabelKind kind,
                    int64_t width) {
  const absl::Status status = weights.Validate(kind, width);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ClassWeightsTest, NoneFitAllLabels) {
  for (const auto kind :
       {LabelKind::kClasses, LabelKind::kMultiLabel, LabelKind::kTargets}) {
    EXPECT_TRUE(ClassWeights().Validate(kind, 3).ok());
  }
  const std::vector<int64_t> counts = {1, 2};
  EXPECT_THAT(ClassWeights().Resolve(counts), IsEmpty());
}

TEST(ClassWeightsTest, ListsHaveAPositiveNumberForEachClass) {
  const ClassWeights list = {.values = {1, 5}};
  EXPECT_TRUE(list.Validate(LabelKind::kClasses, 2).ok());
  EXPECT_TRUE(list.Validate(LabelKind::kMultiLabel, 2).ok());
  EXPECT_THAT(list.Resolve({}), ElementsAre(1, 5));
  EXPECT_THAT(ErrorOf({.values = {1, 5}}, LabelKind::kClasses, 3),
              HasSubstr("class_weights.values: must have an entry for each of "
                        "the 3 classes, not 2"));
  for (const double wrong :
       {0.0, -1.0, 1e-300, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(ErrorOf({.values = {1, wrong}}, LabelKind::kClasses, 2),
                HasSubstr("class_weights.values: must be positive numbers"));
  }
  EXPECT_THAT(ErrorOf({.values = {1}}, LabelKind::kTargets, 1),
              HasSubstr("class_weights.values: must be absent"));
  EXPECT_THAT(ErrorOf({.balanced = true}, LabelKind::kTargets, 1),
              HasSubstr("balanced_classes: must be absent: the labels are "
                        "targets"));
}

// compute_class_weight("balanced", ...) of 8, 2 and 10 labels: 20 / (3 * 8),
// ...
TEST(ClassWeightsTest, BalancedIsScikitLearns) {
  const ClassWeights balanced = {.balanced = true};
  EXPECT_TRUE(balanced.Validate(LabelKind::kClasses, 3).ok());
  const std::vector<int64_t> counts = {8, 2, 10};
  EXPECT_THAT(balanced.Resolve(counts),
              ElementsAre(20.0f / 24, 20.0f / 6, 20.0f / 30));
  const std::vector<int64_t> one_absent = {8, 0, 2};
  EXPECT_THAT(balanced.Resolve(one_absent),
              ElementsAre(10.0f / 16, 1, 10.0f / 4));
  EXPECT_THAT(ErrorOf(balanced, LabelKind::kMultiLabel, 3),
              HasSubstr("balanced_classes: "));
  EXPECT_THAT(ErrorOf(balanced, LabelKind::kTargets, 3), HasSubstr("targets"));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Expects that Validate refuses `options` and names `option`.
void ExpectRefused(const TrainOptions& options, const std::string& option) {
  const absl::Status status = options.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << option;
  EXPECT_TRUE(absl::StartsWith(status.message(), option)) << status;
}

TrainOptions WithModel(const ModelOptions& model) {
  TrainOptions options;
  options.model = model;
  return options;
}

TrainOptions WithOptimizer(const OptimizerOptions& optimizer) {
  TrainOptions options;
  options.optimizer = optimizer;
  return options;
}

TEST(TrainOptionsTest, DefaultsAreValid) {
  EXPECT_TRUE(TrainOptions().Validate().ok());
  EXPECT_TRUE(WithModel(GcnOptions()).Validate().ok());
  EXPECT_TRUE(WithModel(GatOptions()).Validate().ok());
  EXPECT_TRUE(WithModel(RgcnOptions()).Validate().ok());
  EXPECT_TRUE(WithModel(RsageOptions()).Validate().ok());
  EXPECT_TRUE(WithModel(RgatOptions()).Validate().ok());
  EXPECT_TRUE(WithModel(NoModelOptions()).Validate().ok());
  EXPECT_TRUE(WithOptimizer(AdamWOptions()).Validate().ok());
  EXPECT_TRUE(WithOptimizer(SgdOptions()).Validate().ok());
}

TEST(TrainOptionsTest, MetricAndWeightsAreForSomeLabels) {
  using store::LabelKind;
  TrainOptions options;
  EXPECT_TRUE(options.ValidateForLabels(LabelKind::kTargets, 1).ok());
  EXPECT_EQ(options.MetricFor(LabelKind::kTargets), Metric::kMeanSquaredError);
  options.metric = Metric::kRocAuc;
  EXPECT_EQ(options.MetricFor(LabelKind::kClasses), Metric::kRocAuc);
  EXPECT_TRUE(options.ValidateForLabels(LabelKind::kClasses, 2).ok());
  EXPECT_FALSE(options.ValidateForLabels(LabelKind::kTargets, 2).ok());
  options.class_weights = ClassWeights{.values = {1, 2}};
  EXPECT_TRUE(options.ValidateForLabels(LabelKind::kClasses, 2).ok());
  EXPECT_FALSE(options.ValidateForLabels(LabelKind::kClasses, 3).ok());
}

TEST(TrainOptionsTest, WidthsMustBePositive) {
  ExpectRefused(WithModel(SageOptions{.hidden = 0}), "hidden");
  ExpectRefused(WithModel(GcnOptions{.hidden = -1}), "hidden");
  ExpectRefused(WithModel(SageOptions{.hidden = int64_t{1} << 40}), "hidden");
  ExpectRefused(WithModel(GatOptions{.hidden = 8, .heads = 0}), "heads");
}

TEST(TrainOptionsTest, HeadsMustDivideHidden) {
  EXPECT_TRUE(WithModel(GatOptions{.hidden = 6, .heads = 3}).Validate().ok());
  ExpectRefused(WithModel(GatOptions{.hidden = 8, .heads = 3}),
                "hidden is 8; it must be a multiple of heads, 3");
  ExpectRefused(WithModel(RgatOptions{.hidden = 8, .heads = 3}),
                "hidden is 8; it must be a multiple of heads, 3");
}

TEST(TrainOptionsTest, BasesMayBeNone) {
  EXPECT_TRUE(WithModel(RgcnOptions{.bases = 2}).Validate().ok());
  ExpectRefused(WithModel(RgcnOptions{.bases = -1}), "bases is -1");
}

TEST(TrainOptionsTest, RelationalModelsTakeTypes) {
  for (const ModelOptions& model :
       {ModelOptions(RgcnOptions()), ModelOptions(RsageOptions()),
        ModelOptions(RgatOptions()), ModelOptions(NoModelOptions())}) {
    EXPECT_TRUE(TakesTypes(model)) << Name(model);
  }
  for (const ModelOptions& model :
       {ModelOptions(SageOptions()), ModelOptions(GcnOptions()),
        ModelOptions(GatOptions()), ModelOptions(Gatv2Options()),
        ModelOptions(GinOptions())}) {
    EXPECT_FALSE(TakesTypes(model)) << Name(model);
  }
}

TEST(TrainOptionsTest, OptimizersNeedFiniteNumbers) {
  ExpectRefused(WithOptimizer(AdamOptions{.learning_rate = std::nan("")}),
                "learning_rate");
  ExpectRefused(WithOptimizer(AdamOptions{.learning_rate = -0.1}),
                "learning_rate");
  ExpectRefused(WithOptimizer(AdamWOptions{.weight_decay = kInfinity}),
                "weight_decay");
  ExpectRefused(WithOptimizer(SgdOptions{.momentum = -1}), "momentum");
}

TEST(TrainOptionsTest, DropoutIsBelowOne) {
  TrainOptions options;
  options.dropout = 0.999;
  EXPECT_TRUE(options.Validate().ok());
  for (const double bad : {1.0, -0.1, std::nan("")}) {
    options.dropout = bad;
    ExpectRefused(options, "dropout");
  }
}

TEST(TrainOptionsTest, AtLeastOneThread) {
  TrainOptions options;
  options.train_threads = 0;
  ExpectRefused(options, "train_threads");
}

TEST(ModelShapeTest, FiguresMustBePositive) {
  ModelShape shape{.feature_dim = 1, .label_width = 1, .num_layers = 1};
  EXPECT_TRUE(shape.Validate().ok());
  shape.num_layers = 0;
  EXPECT_EQ(shape.Validate().message(),
            "num_layers is 0; it must be from 1 to 64");
  shape.label_width = 0;
  EXPECT_TRUE(absl::StartsWith(shape.Validate().message(), "label_width is 0"));
  shape.feature_dim = 0;
  EXPECT_TRUE(absl::StartsWith(shape.Validate().message(), "feature_dim is 0"));
}

// Two node types and the edges between them.
ModelShape TypedShape() {
  return {.feature_dim = 8,
          .label_width = 2,
          .num_layers = 1,
          .node_types = {{.name = "paper", .feature_dim = 8},
                         {.name = "author", .feature_dim = 3}},
          .edge_types = {{.name = "writes", .source = 1, .destination = 0}},
          .target_type = 0};
}

void ExpectRefused(const ModelShape& shape, const std::string& text) {
  EXPECT_EQ(shape.Validate().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(shape.Validate().message(), text))
      << shape.Validate();
}

TEST(ModelShapeTest, AWindowIsAmongTheShardsOfABatch) {
  ModelShape shape{.feature_dim = 1, .label_width = 1, .num_layers = 1};
  shape.trainers = 2;
  for (const sample::ShardWindow& window :
       {sample::ShardWindow{}, sample::ShardWindow{.first = 4, .all = 6},
        sample::ShardWindow{.first = 254, .all = 256}}) {
    shape.window = window;
    EXPECT_TRUE(shape.Validate().ok());
  }
  for (const sample::ShardWindow& window :
       {sample::ShardWindow{.first = 5, .all = 6},
        sample::ShardWindow{.first = -1, .all = 6},
        sample::ShardWindow{.first = 1, .all = 0},
        sample::ShardWindow{.first = 0, .all = 257}}) {
    shape.window = window;
    EXPECT_TRUE(absl::IsInvalidArgument(shape.Validate()));
  }
}

TEST(ModelShapeTest, TypesAreInRange) {
  EXPECT_EQ(TypedShape().Validate(), absl::OkStatus());
  ModelShape shape = TypedShape();
  shape.edge_types[0].source = 2;
  ExpectRefused(shape, "source of writes is 2; it must be from 0 to 1");
  shape = TypedShape();
  shape.edge_types[0].destination = 2;
  ExpectRefused(shape, "destination of writes is 2");
  shape = TypedShape();
  shape.target_type = 2;
  ExpectRefused(shape, "target_type is 2");
  shape.node_types.clear();
  shape.edge_types.clear();
  shape.target_type = 1;
  ExpectRefused(shape, "target_type is 1");
}

TEST(ModelShapeTest, NoTypeIsWiderThanTheInputs) {
  ModelShape shape = TypedShape();
  shape.node_types[1].feature_dim = 9;
  ExpectRefused(shape, "feature_dim of author is 9; it must be from 1 to 8");
  shape.node_types[1].feature_dim = 0;
  ExpectRefused(shape, "feature_dim of author is 0");
}

TEST(ModelShapeTest, NodesAndEdgesHaveTypesOrNeitherHas) {
  ModelShape shape = TypedShape();
  shape.edge_types.clear();
  ExpectRefused(shape, "node_types has 2 types, but edge_types has 0");
}

TEST(DeviceTest, HasAName) {
  for (const char* name : {"", "cpu"}) {
    ASSERT_TRUE(GpuNamed(name).ok());
    EXPECT_EQ(*GpuNamed(name), std::nullopt);
  }
  EXPECT_EQ(*GpuNamed("cuda"), 0);
  EXPECT_EQ(*GpuNamed("cuda:17"), 17);
  for (const char* name : {"gpu", "CPU", "cuda:", "cuda0", "cuda:-1", "cuda:1x",
                           "cuda: 1", "cuda:+1", "cuda:4294967296"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(GpuNamed(name).status())) << name;
  }
  EXPECT_EQ(DeviceName(std::nullopt), "cpu");
  EXPECT_EQ(DeviceName(1), "cuda:1");
}

constexpr double kBase = 0.4;
constexpr int64_t kEpochSteps = 7;
constexpr int64_t kEpochs = 10;

LearningRate Rate(const Schedule& schedule, int64_t warmup_epochs = 0) {
  TrainOptions options;
  options.optimizer = SgdOptions{.learning_rate = kBase};
  options.schedule = schedule;
  options.warmup_epochs = warmup_epochs;
  ModelShape shape;
  shape.epoch_steps = kEpochSteps;
  shape.epochs = kEpochs;
  return LearningRate(options, shape);
}

TEST(LearningRate, ConstantIsTheRateItself) {
  const LearningRate rate = Rate(ConstantSchedule{});
  for (int64_t step = 0; step < kEpochSteps * kEpochs; ++step) {
    EXPECT_EQ(rate.At(step), kBase);
  }
}

TEST(LearningRate, EveryOptimizersRateIsTheBase) {
  TrainOptions options;
  ModelShape shape;
  options.optimizer = AdamOptions{.learning_rate = 0.25};
  EXPECT_EQ(LearningRate(options, shape).At(3), 0.25);
  options.optimizer = AdamWOptions{.learning_rate = 0.5};
  EXPECT_EQ(LearningRate(options, shape).At(3), 0.5);
}

// Recursion by which torch.optim.lr_scheduler.CosineAnnealingLR(T_max, eta_min)
// goes from step to step.
TEST(LearningRate, CosineIsTorchsRecursion) {
  constexpr double kLeast = 0.01;
  constexpr int64_t kSteps = kEpochSteps * kEpochs;
  const LearningRate rate = Rate(CosineSchedule{.min_learning_rate = kLeast});
  double expected = kBase;
  for (int64_t step = 0; step < kSteps; ++step) {
    if (step > 0) {
      const auto part = [&](int64_t n) {
        return 1 + std::cos(std::numbers::pi * static_cast<double>(n) /
                            static_cast<double>(kSteps));
      };
      expected = part(step) / part(step - 1) * (expected - kLeast) + kLeast;
    }
    EXPECT_NEAR(rate.At(step), expected, 1e-12) << step;
  }
}

// torch.optim.lr_scheduler.StepLR, called after each epoch.
TEST(LearningRate, StepIsTorchsAfterEachEpoch) {
  const LearningRate rate = Rate(StepSchedule{.epochs = 3, .gamma = 0.5});
  double expected = kBase;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    if (epoch > 0 && epoch % 3 == 0) expected *= 0.5;
    for (int64_t batch = 0; batch < kEpochSteps; ++batch) {
      EXPECT_NEAR(rate.At(epoch * kEpochSteps + batch), expected, 1e-15);
    }
  }
}

// torch.optim.lr_scheduler.LambdaLR with (step + 1) / W, then the others.
TEST(LearningRate, WarmsUpLinearlyBeforeTheSchedule) {
  for (const Schedule& schedule :
       {Schedule(ConstantSchedule{}), Schedule(CosineSchedule{}),
        Schedule(StepSchedule{.epochs = 2, .gamma = 0.1})}) {
    const LearningRate rate = Rate(schedule, /*warmup_epochs=*/2);
    constexpr int64_t kWarmup = 2 * kEpochSteps;
    for (int64_t step = 0; step < kWarmup; ++step) {
      EXPECT_NEAR(rate.At(step),
                  kBase * static_cast<double>(step + 1) / kWarmup, 1e-15);
    }
    EXPECT_EQ(rate.At(kWarmup), kBase);
  }
  const LearningRate cosine = Rate(CosineSchedule{}, 2);
  EXPECT_NEAR(cosine.At(6 * kEpochSteps), kBase / 2, 1e-15);
  const LearningRate step = Rate(StepSchedule{.epochs = 2, .gamma = 0.1}, 2);
  EXPECT_EQ(step.At(4 * kEpochSteps - 1), kBase);
  EXPECT_NEAR(step.At(4 * kEpochSteps), kBase / 10, 1e-15);
}

TEST(LearningRate, OptionsAreValidated) {
  const auto valid = [](auto change) {
    TrainOptions options;
    change(options);
    return options.Validate().ok();
  };
  EXPECT_TRUE(valid([](auto& o) { o.schedule = CosineSchedule{}; }));
  EXPECT_FALSE(valid(
      [](auto& o) { o.schedule = CosineSchedule{.min_learning_rate = -1}; }));
  EXPECT_FALSE(valid(
      [](auto& o) { o.schedule = StepSchedule{.epochs = 0, .gamma = 0.5}; }));
  EXPECT_FALSE(valid(
      [](auto& o) { o.schedule = StepSchedule{.epochs = 1, .gamma = -0.5}; }));
  EXPECT_FALSE(valid([](auto& o) { o.warmup_epochs = -1; }));
}

}  // namespace

}  // namespace hearth::train
