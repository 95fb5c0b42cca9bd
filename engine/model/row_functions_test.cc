#include "engine/model/row_functions.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "engine/model/thread_count.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

RowsPtr Rows(std::vector<int32_t> rows) {
  return std::make_shared<std::vector<int32_t>>(std::move(rows));
}

at::Tensor Gradient(const at::Tensor& result, const at::Tensor& by) {
  return torch::autograd::grad(
             {(result *
               at::arange(result.numel(), at::kFloat).view(result.sizes()))
                  .sum()},
             {by})
      .front();
}

TEST(GatherRowsTest, TakesTheFirstColumnsOfItsRows) {
  at::Tensor x = at::arange(12, at::kFloat).view({4, 3});
  x[1][2] = std::numeric_limits<float>::quiet_NaN();
  x.requires_grad_();
  const auto parts =
      GatherRows(x, {{Rows({3, 1}), 2}, {Rows({}), 3}, {Rows({0, 1, 3}), 1}});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(
      at::equal(parts[0], at::tensor({9.0f, 10.0f, 3.0f, 4.0f}).view({2, 2})));
  EXPECT_EQ(parts[1].sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(at::equal(parts[2], at::tensor({0.0f, 3.0f, 9.0f}).view({3, 1})));
  // Rows that were taken twice have the sum; sets that nobody used, nothing.
  const at::Tensor gradient =
      torch::autograd::grad({parts[0].sum() + 10 * parts[2].sum()}, {x})[0];
  EXPECT_TRUE(
      at::equal(gradient, at::tensor({10.0f, 0.0f, 0.0f, 11.0f, 1.0f, 0.0f,
                                      0.0f, 0.0f, 0.0f, 11.0f, 1.0f, 0.0f})
                              .view({4, 3})));
}

TEST(AddRowsTest, AddsInPlaceWithGradients) {
  const at::Tensor rows = at::ones({2, 2}, at::kFloat).requires_grad_();
  const at::Tensor more = at::full({1, 2}, 5.0f).requires_grad_();
  at::Tensor sum = AddRows(at::zeros({4, 2}), rows, Rows({1, 3}));
  sum = AddRows(sum, more, Rows({3}));
  EXPECT_TRUE(at::equal(
      sum, at::tensor({0.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 6.0f, 6.0f})
               .view({4, 2})));
  EXPECT_TRUE(
      at::equal(Gradient(sum, more), at::tensor({6.0f, 7.0f}).view({1, 2})));
}

TEST(AddRowsTest, TheFirstRowsHaveTheirGradientToo) {
  const at::Tensor rows = at::ones({2, 2}, at::kFloat).requires_grad_();
  at::Tensor sum = AddRows(at::zeros({4, 2}), rows, Rows({1, 3}));
  sum = AddRows(sum, at::ones({1, 2}), Rows({3}));
  EXPECT_TRUE(at::equal(Gradient(sum, rows),
                        at::tensor({2.0f, 3.0f, 6.0f, 7.0f}).view({2, 2})));
}

TEST(AddBiasToRowsTest, ItsGradientIsThatOfItsRows) {
  const at::Tensor bias = at::tensor({1.0f, 2.0f}).requires_grad_();
  for (const auto& rows : {Rows({0, 2}), Rows({0, 1, 2}), Rows({})}) {
    const at::Tensor sum = AddBiasToRows(at::zeros({3, 2}), bias, rows);
    at::Tensor expected = at::zeros({3, 2});
    at::Tensor gradient = at::zeros({2});
    for (const int32_t row : *rows) {
      expected[row] = bias.detach();
      gradient += at::tensor({2.0f * row, 2.0f * row + 1});
    }
    EXPECT_TRUE(at::equal(sum, expected));
    EXPECT_TRUE(at::allclose(Gradient(sum, bias), gradient));
  }
}

TEST(RowFunctionsTest, ThreadsChangeNoBit) {
  std::vector<int32_t> even;
  for (int32_t row = 0; row < 20000; row += 2) even.push_back(row);
  const auto compute = [&](int threads) {
    const ThreadCount scope(threads);
    const at::Tensor x =
        at::arange(20000 * 33, at::kFloat).view({20000, 33}).sin();
    x.requires_grad_();
    const auto parts =
        GatherRows(x, {{Rows(even), 33}, {Rows({1, 5, 7, 8}), 20}});
    const at::Tensor sum =
        AddRows(at::zeros({20000, 33}), parts[0], Rows(even));
    return torch::autograd::grad({(sum * x).sum() + parts[1].sum()}, {x})[0];
  };
  const at::Tensor one = compute(1);
  EXPECT_TRUE(at::equal(compute(3), one));
}

}  // namespace
}  // namespace hearth::model
