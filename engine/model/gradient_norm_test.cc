#include "engine/model/gradient_norm.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

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

}  // namespace
}  // namespace hearth::model
