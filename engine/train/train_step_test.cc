#include "engine/train/train_step.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "gtest/gtest.h"

namespace hearth::train {

namespace {

// A view of two seeds, two layers and four input nodes.
class BatchViewTest : public ::testing::Test {
 protected:
  BatchViewTest() {
    batch_.num_seeds = 2;
    batch_.input_nodes = {5, 6, 7, 8};
    batch_.in_degrees = {1, 1, 1, 1};
    batch_.blocks.resize(2);
    batch_.blocks[0].num_sources = 4;
    batch_.blocks[0].num_destinations = 3;
    batch_.blocks[0].indptr = {0, 1, 2, 3};
    batch_.blocks[0].indices = {1, 2, 3};
    batch_.blocks[1].num_sources = 3;
    batch_.blocks[1].num_destinations = 2;
    batch_.blocks[1].indptr = {0, 1, 2};
    batch_.blocks[1].indices = {1, 2};
  }

  absl::Status Validate() const {
    return BatchView{.sample = batch_,
                     .inputs = inputs_,
                     .feature_dim = feature_dim_,
                     .labels = labels_.view()}
        .Validate(shape_);
  }

  void ExpectRefused(const std::string& text) const {
    EXPECT_EQ(Validate().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(Validate().message(), text)) << Validate();
  }

  sample::MiniBatch batch_;
  float inputs_[8] = {};
  int64_t feature_dim_ = 2;
  ModelShape shape_ = {.feature_dim = 2, .label_width = 3, .num_layers = 2};
  store::Labels labels_ = store::Labels::Classes({0, 2}, 3);
};

TEST_F(BatchViewTest, FittingBatchIsValid) { EXPECT_TRUE(Validate().ok()); }

TEST_F(BatchViewTest, FeaturesMustFit) {
  feature_dim_ = 3;
  ExpectRefused("features per node: 3, but the model expects 2");
}

TEST_F(BatchViewTest, OneBlockPerLayer) {
  batch_.blocks.pop_back();
  ExpectRefused("blocks in the batch: 1, but the model expects 2");
}

TEST_F(BatchViewTest, OneLabelPerSeed) {
  labels_ = store::Labels::Classes({0}, 3);
  ExpectRefused("labels in the batch: 1, but the model expects 2");
}

TEST_F(BatchViewTest, LabelsAreClasses) {
  labels_ = store::Labels::Classes({0, 3}, 3);
  ExpectRefused("label 3 is not one of 3 classes");
  labels_ = store::Labels::Classes({0, -1}, 3);
  ExpectRefused("label -1");
}

TEST_F(BatchViewTest, LabelsAreOfTheModelsKindAndWidth) {
  shape_.label_kind = store::LabelKind::kMultiLabel;
  ExpectRefused("labels are classes, but the model expects multi_label");
  labels_ = store::Labels::MultiLabel({0b1000, 0b1101}, 2, 3);
  EXPECT_TRUE(Validate().ok()) << Validate();
  labels_ = store::Labels::MultiLabel({0b1000, 0b101}, 2, 3);
  ExpectRefused("row 1 is not the labels of a labeled node");
  labels_ = store::Labels::MultiLabel({0b10000, 0b11000}, 2, 4);
  ExpectRefused("width of the labels: 4, but the model expects 3");

  shape_.label_kind = store::LabelKind::kTargets;
  labels_ = store::Labels::Targets({0, 1, 2, -3, 4, 5}, 2, 3);
  EXPECT_TRUE(Validate().ok()) << Validate();
  labels_ = store::Labels::Targets({0, 1, 2, NAN, NAN, NAN}, 2, 3);
  ExpectRefused("target 0 of row 1 is nan");
}

TEST_F(BatchViewTest, DegreesOfAllInputs) {
  batch_.in_degrees.pop_back();
  ExpectRefused("in-degrees in the batch: 3");
}

TEST_F(BatchViewTest, BlocksMustFollowEachOther) {
  batch_.blocks[1].num_sources = 4;
  ExpectRefused("blocks do not fit");
  batch_.blocks[1].num_sources = 3;
  batch_.blocks[0].indices.push_back(0);
  ExpectRefused("blocks do not fit");
}

TEST_F(BatchViewTest, LastBlockEndsInTheSeeds) {
  batch_.num_seeds = 1;
  labels_ = store::Labels::Classes({0}, 3);
  ExpectRefused("destinations of the last block: 2");
}

TEST_F(BatchViewTest, TypesFitTheModelAndTheBatch) {
  shape_.node_types = {{.name = "a", .feature_dim = 2},
                       {.name = "b", .feature_dim = 1}};
  shape_.edge_types = {{.name = "r"}, {.name = "s"}, {.name = "t"}};
  EXPECT_EQ(Validate(), absl::OkStatus());
  batch_.node_types = {0, 0, 1, 1};
  batch_.blocks[0].edge_types = {0, 2, 2};
  EXPECT_EQ(Validate(), absl::OkStatus());
  batch_.blocks[0].edge_types = {0, 3, 2};
  ExpectRefused("one of the edges is of type 3, but the model has 3");
  batch_.blocks[0].edge_types = {0, 2};
  ExpectRefused("types of edges: 2, but the model expects 3");
  batch_.blocks[0].edge_types.clear();
  batch_.node_types = {0, 0, 1, 2};
  ExpectRefused("one of the input nodes is of type 2, but the model has 2");
  batch_.node_types = {0};
  ExpectRefused("types of input nodes: 1");
}

TEST_F(BatchViewTest, AModelWithoutTypesKnowsTypeZeroAlone) {
  batch_.node_types = {0, 0, 0, 0};
  EXPECT_EQ(Validate(), absl::OkStatus());
  batch_.node_types = {0, 1, 0, 0};
  ExpectRefused("one of the input nodes is of type 1, but the model has 1");
}

// A batch of shards, some of them empty.
class ShardsTest : public BatchViewTest {
 protected:
  ShardsTest() {
    empty_.blocks.resize(2);
    for (sample::Block& block : empty_.blocks) block.indptr = {0};
  }

  BatchView Full() const {
    return {.sample = batch_,
            .inputs = inputs_,
            .feature_dim = feature_dim_,
            .labels = labels_.view()};
  }
  BatchView Empty() const {
    return {.sample = empty_,
            .feature_dim = feature_dim_,
            .labels = no_labels_.view()};
  }
  absl::Status ValidateShards(const std::vector<BatchView>& shards) {
    shape_.trainers = static_cast<int64_t>(shards.size());
    return ValidateBatch(shards, shape_);
  }

  sample::MiniBatch empty_;
  store::Labels no_labels_ = store::Labels::Classes({}, 3);
};

TEST_F(ShardsTest, SomeMayBeEmpty) {
  EXPECT_TRUE(ValidateShards({Full()}).ok());
  EXPECT_TRUE(ValidateShards({Full(), Full(), Empty()}).ok());
  EXPECT_TRUE(ValidateShards({Empty(), Full()}).ok());
  EXPECT_EQ(NumSeeds({Full(), Empty(), Full()}), 4);
}

TEST_F(ShardsTest, SomeSeeds) {
  for (const auto& shards : {std::vector<BatchView>{Empty()},
                             std::vector<BatchView>{Empty(), Empty()}}) {
    EXPECT_EQ(ValidateShards(shards),
              absl::InvalidArgumentError("the batch has no seeds"));
  }
}

TEST_F(ShardsTest, OneForEachTrainer) {
  shape_.trainers = 3;
  EXPECT_EQ(ValidateBatch({Full(), Full()}, shape_),
            absl::InvalidArgumentError(
                "shards of the batch: 2, but the model expects 3"));
}

TEST_F(ShardsTest, EachMustFit) {
  BatchView other = Full();
  other.feature_dim = 3;
  EXPECT_FALSE(ValidateShards({Full(), other}).ok());
}

TEST(NullStepTest, CountsSeedsAndLosesNothing) {
  sample::MiniBatch batch;
  batch.num_seeds = 3;
  const auto step = NewNullStep();
  const BatchView view{
      .sample = batch, .inputs = nullptr, .feature_dim = 1, .labels = {}};
  for (const auto& result :
       {step->Train({view, view}, {}), step->Evaluate({view, view})}) {
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->loss, 0);
    EXPECT_EQ(result->tally.num_predictions, 0);
    EXPECT_EQ(result->num_seeds, 6);
  }
}

TEST(NullStepTest, HasNoState) {
  const auto step = NewNullStep();
  EXPECT_TRUE(step->Save()->empty());
  EXPECT_TRUE(step->Load({}).ok());
  const absl::Status status = step->Load({{"model.weight", store::Tensor()}});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "unexpected tensor model.weight");
  EXPECT_TRUE(step->Export()->tensors.empty());
}

}  // namespace

}  // namespace hearth::train
