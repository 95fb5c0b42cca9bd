#include <string>

#include "absl/strings/match.h"
#include "engine/sample/mini_batch.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

constexpr ModelShape kShape = {
    .feature_dim = 2, .num_classes = 3, .num_layers = 2};

// Two seeds, two layers, four input nodes.
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
                     .labels = labels_}
        .Validate(kShape);
  }

  void ExpectRefused(const std::string& text) const {
    EXPECT_EQ(Validate().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(Validate().message(), text)) << Validate();
  }

  sample::MiniBatch batch_;
  float inputs_[8] = {};
  int64_t feature_dim_ = 2;
  std::vector<int32_t> labels_ = {0, 2};
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
  labels_.pop_back();
  ExpectRefused("labels in the batch: 1");
}

TEST_F(BatchViewTest, LabelsAreClasses) {
  labels_[1] = 3;
  ExpectRefused("label 3 is not one of 3 classes");
  labels_[1] = -1;
  ExpectRefused("label -1");
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
  labels_ = {0};
  ExpectRefused("destinations of the last block: 2");
}

TEST_F(BatchViewTest, SomeSeeds) {
  batch_.num_seeds = 0;
  labels_.clear();
  ExpectRefused("no seeds");
}

}  // namespace
}  // namespace hearth::train
