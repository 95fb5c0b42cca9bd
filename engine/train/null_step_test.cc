#include "engine/train/null_step.h"

#include "engine/sample/mini_batch.h"
#include "engine/store/safetensors.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::train {
namespace {

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
