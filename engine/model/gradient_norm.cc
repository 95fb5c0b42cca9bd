#include "engine/model/gradient_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>

#include <array>
#include <cmath>
#include <cstdint>

namespace hearth::model {
namespace {

// torch's, against a division by zero.
constexpr double kEpsilon = 1e-6;

// A fixed number of sums, so that the compiler can use vectors and the order of
// additions depends on nothing but the size.
double SumOfSquares(const float* values, int64_t count) {
  constexpr int64_t kSums = 8;
  std::array<double, kSums> sums = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += double{values[i]} * double{values[i]};
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

double GlobalNorm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.contiguous().cpu();
    sum += SumOfSquares(values.const_data_ptr<float>(), values.numel());
  }
  return std::sqrt(sum);
}

std::vector<at::Tensor> ClipNorm(const std::vector<at::Tensor>& gradients,
                                 double max_norm) {
  const at::NoGradGuard no_gradients;
  const double scale = max_norm / (GlobalNorm(gradients) + kEpsilon);
  if (scale >= 1) return gradients;
  // Not in place: two gradients may be one tensor.
  std::vector<at::Tensor> clipped;
  clipped.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) {
    clipped.push_back(at::mul(gradient, scale));
  }
  return clipped;
}

}  // namespace hearth::model
