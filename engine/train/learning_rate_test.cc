#include "engine/train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace hearth::train {
namespace {

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

// torch.optim.lr_scheduler.CosineAnnealingLR(T_max, eta_min) goes from step to
// step by this recursion.
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
