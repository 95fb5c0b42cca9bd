#include "engine/train/model_options.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/store/label_kind.h"
#include "engine/train/class_weights.h"
#include "engine/train/metric.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

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

}  // namespace
}  // namespace hearth::train
