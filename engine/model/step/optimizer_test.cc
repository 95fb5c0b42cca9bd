#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <vector>

#include "engine/model/step/replica.h"
#include "gtest/gtest.h"

namespace hearth::model {

namespace {

std::vector<at::Tensor> Gradients() {
  at::manual_seed(3);
  return {at::randn({37, 5}), at::randn({19}), at::randn({8, 8}).t(),
          at::zeros({3})};
}

// torch.nn.utils.clip_grad_norm_, element by element in double.
std::vector<at::Tensor> Naive(const std::vector<at::Tensor>& gradients,
                              double max_norm) {
  double sum = 0;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor flat = gradient.reshape({-1}).to(at::kDouble);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      sum += flat[i].item<double>() * flat[i].item<double>();
    }
  }
  const double scale = std::min(1.0, max_norm / (std::sqrt(sum) + 1e-6));
  std::vector<at::Tensor> clipped;
  for (const at::Tensor& gradient : gradients) {
    clipped.push_back(gradient.to(at::kDouble) * scale);
  }
  return clipped;
}

TEST(ClipNorm, IsTorchs) {
  for (const double max_norm : {0.001, 1.0, 15.0, 1e6}) {
    const std::vector<at::Tensor> clipped = ClipNorm(Gradients(), max_norm);
    const std::vector<at::Tensor> expected = Naive(Gradients(), max_norm);
    ASSERT_EQ(clipped.size(), expected.size());
    for (size_t i = 0; i < clipped.size(); ++i) {
      EXPECT_TRUE(at::allclose(clipped[i].to(at::kDouble), expected[i],
                               /*rtol=*/1e-6, /*atol=*/1e-9))
          << max_norm;
    }
    EXPECT_LE(GlobalNorm(clipped), max_norm * (1 + 1e-6));
  }
}

TEST(ClipNorm, LeavesSmallGradientsAlone) {
  const std::vector<at::Tensor> gradients = Gradients();
  const std::vector<at::Tensor> clipped =
      ClipNorm(gradients, 2 * GlobalNorm(gradients));
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_TRUE(clipped[i].is_same(gradients[i]));
  }
}

TEST(ClipNorm, GradientsThatAreOneTensorAreScaledOnce) {
  const at::Tensor shared = at::full({4}, 3.0);
  const std::vector<at::Tensor> clipped = ClipNorm({shared, shared}, 1);
  EXPECT_NEAR(GlobalNorm(clipped), 1, 1e-6);
  EXPECT_EQ(shared[0].item<float>(), 3);
}

constexpr int kSteps = 6;

double Gradient(int step) { return std::sin(step) + 0.1; }

// Values that one parameter takes, starting from 0.5.
std::vector<double> Values(const train::OptimizerOptions& options) {
  const at::Tensor parameter = at::full({1}, 0.5, at::kFloat).requires_grad_();
  train::TrainOptions train;
  train.optimizer = options;
  const auto optimizer =
      NewOptimizer(options, train::LearningRate(train, train::ModelShape()),
                   {{"p", parameter}});
  std::vector<double> values;
  for (int step = 1; step <= kSteps; ++step) {
    optimizer->Step({at::full({1}, Gradient(step), at::kFloat)});
    values.push_back(parameter.item<float>());
  }
  return values;
}

// Expects the values that `update(value, gradient, step)` gives, in double
// precision.
void ExpectFollows(const train::OptimizerOptions& options,
                   const std::function<double(double, double, int)>& update) {
  const std::vector<double> values = Values(options);
  double expected = 0.5;
  for (int step = 1; step <= kSteps; ++step) {
    expected = update(expected, Gradient(step), step);
    EXPECT_NEAR(values[step - 1], expected, 1e-6) << "step " << step;
  }
}

// Adam's moments with torch's defaults, and the distance to move per unit of
// rate.
class Moments {
 public:
  double Direction(double gradient, int step) {
    first_ = 0.9 * first_ + 0.1 * gradient;
    second_ = 0.999 * second_ + 0.001 * gradient * gradient;
    const double first = first_ / (1 - std::pow(0.9, step));
    const double second = second_ / (1 - std::pow(0.999, step));
    return first / (std::sqrt(second) + 1e-8);
  }

 private:
  double first_ = 0;
  double second_ = 0;
};

TEST(OptimizerTest, AdamAddsDecayToTheGradient) {
  Moments moments;
  ExpectFollows(train::AdamOptions{.learning_rate = 0.01, .weight_decay = 0.2},
                [&](double value, double gradient, int step) {
                  return value -
                         0.01 * moments.Direction(gradient + 0.2 * value, step);
                });
}

TEST(OptimizerTest, AdamWShrinksTheValue) {
  Moments moments;
  ExpectFollows(train::AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.2},
                [&](double value, double gradient, int step) {
                  return value * (1 - 0.01 * 0.2) -
                         0.01 * moments.Direction(gradient, step);
                });
}

TEST(OptimizerTest, SgdKeepsMomentum) {
  double momentum = 0;
  ExpectFollows(
      train::SgdOptions{
          .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.05},
      [&](double value, double gradient, int step) {
        momentum = 0.9 * momentum + gradient + 0.05 * value;
        return value - 0.1 * momentum;
      });
}

TEST(OptimizerTest, TheRateIsThatOfTheStep) {
  const at::Tensor parameter = at::zeros({1}).requires_grad_();
  train::TrainOptions train;
  train.optimizer = train::SgdOptions{.learning_rate = 1};
  train.schedule = train::StepSchedule{.epochs = 1, .gamma = 0.5};
  train::ModelShape shape;
  shape.epoch_steps = 2;
  const auto optimizer = NewOptimizer(
      train.optimizer, train::LearningRate(train, shape), {{"p", parameter}});
  double expected = 0;
  for (const double rate : {1.0, 1.0, 0.5, 0.5, 0.25}) {
    optimizer->Step({at::ones({1})});
    expected -= rate;
    EXPECT_EQ(parameter.item<float>(), expected);
  }
}

TEST(OptimizerTest, SgdWithoutMomentumFollowsTheGradient) {
  ExpectFollows(train::SgdOptions{.learning_rate = 0.1},
                [](double value, double gradient, int step) {
                  return value - 0.1 * gradient;
                });
}

TEST(OptimizerTest, StateCountsStepsAndNamesMoments) {
  const at::Tensor parameter = at::ones({2, 3}, at::kFloat).requires_grad_();
  const auto optimizer = NewOptimizer(
      train::AdamOptions(),
      train::LearningRate(train::TrainOptions(), train::ModelShape()),
      {{"convs.0.bias", parameter}});
  optimizer->Step({at::ones({2, 3}, at::kFloat)});
  optimizer->Step({at::ones({2, 3}, at::kFloat)});
  const auto& state = optimizer->state();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[0].name, "step");
  EXPECT_EQ(state[0].tensor.item<int64_t>(), 2);
  EXPECT_EQ(state[1].name, "convs.0.bias.exp_avg");
  EXPECT_EQ(state[2].name, "convs.0.bias.exp_avg_sq");
  EXPECT_EQ(state[2].tensor.sizes(), parameter.sizes());
}

}  // namespace

}  // namespace hearth::model
