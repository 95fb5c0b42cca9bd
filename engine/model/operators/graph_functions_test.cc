#include "engine/model/operators/graph_functions.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/model/operators/matrix_product.h"
#include "engine/model/operators/values_fixture.h"
#include "engine/model/runtime/torch_boundary.h"
#include "gtest/gtest.h"

namespace hearth::model {

namespace {

// A graph of `nodes` nodes in which each has edges from the next `degree`.
EdgesPtr Ring(int64_t nodes, int64_t degree) {
  sample::Block block;
  block.num_sources = block.num_destinations = nodes;
  block.indptr = {0};
  for (int64_t node = 0; node < nodes; ++node) {
    for (int64_t i = 1; i <= degree; ++i) {
      block.indices.push_back(static_cast<int32_t>((node + i) % nodes));
    }
    block.indptr.push_back(static_cast<int64_t>(block.indices.size()));
  }
  return NewEdges(MeanAdjacency(block), at::kCPU);
}

TEST(SumsFirstTest, WeighsProductsAgainstSums) {
  PropagateSizes sizes{.sources = 60000,
                       .destinations = 20000,
                       .edges = 80000,
                       .in = 1024,
                       .out = 256,
                       .needs_input_gradient = false};
  // Three products of sources against one of destinations.
  EXPECT_TRUE(SumsFirst(sizes));
  // A whole graph: equally many products either way, but narrower sums.
  sizes.sources = sizes.destinations;
  EXPECT_FALSE(SumsFirst(sizes));
  sizes.needs_input_gradient = true;
  EXPECT_FALSE(SumsFirst(sizes));
  // Wider sums.
  std::swap(sizes.in, sizes.out);
  EXPECT_TRUE(SumsFirst(sizes));
}

TEST(PropagateLinearTest, BothOrdersAgreeWithAutogradsOwn) {
  // 12 to 5 columns multiplies first, 5 to 12 sums first.
  for (const auto& [in, out] : {std::pair{12, 5}, std::pair{5, 12}}) {
    const EdgesPtr edges = Ring(40, 3);
    const at::Tensor dense = [&] {
      at::Tensor matrix = at::zeros({40, 40});
      for (int64_t i = 0; i < 40; ++i) {
        for (int64_t j = 1; j <= 3; ++j) matrix[i][(i + j) % 40] = 1.0 / 3;
      }
      return matrix;
    }();
    const at::Tensor x = Values({40, in}).requires_grad_();
    const at::Tensor weight = Values({out, in}).requires_grad_();
    const at::Tensor root = Values({out, in}).requires_grad_();
    const at::Tensor bias = Values({out}).requires_grad_();
    const at::Tensor direction = Values({40, out});
    const auto gradients = [&](const at::Tensor& result) {
      (result * direction).sum().backward();
      std::vector<at::Tensor> found;
      for (const at::Tensor& leaf : {x, weight, root, bias}) {
        found.push_back(leaf.grad().clone());
        leaf.mutable_grad().reset();
      }
      return found;
    };
    const at::Tensor result = PropagateLinear(x, weight, bias, root, edges);
    const at::Tensor expected = at::matmul(at::matmul(dense, x), weight.t()) +
                                bias + at::matmul(x, root.t());
    EXPECT_TRUE(at::allclose(result, expected, 1e-4, 1e-5));
    const auto found = gradients(result);
    const auto wanted = gradients(expected);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-4, 1e-4)) << i;
    }
  }
}

TEST(EdgesTest, SumsForProductsAreRoundedOnce) {
  const EdgesPtr edges = Ring(100, 3);
  const at::Tensor x = Values({100, 37});
  EXPECT_TRUE(at::equal(edges->SumForProducts(x), edges->Sum(x)));
  if (!HasProducts(train::Precision::kBfloat16)) {
    GTEST_SKIP() << "no bfloat16 here";
  }
  const ProductPrecision scope(train::Precision::kBfloat16);
  EXPECT_TRUE(
      at::equal(edges->SumForProducts(x), edges->Sum(x).to(at::kBFloat16)));
}

TEST(PropagateLinearTest, AnActivationOfItsOwnIsThatOfAnotherFunction) {
  const ReluActivation activation = {
      DropoutPattern(0.5, 1, {.epoch = 0, .batch = 0}, 0)};
  for (const auto& [in, out] : {std::pair{12, 5}, std::pair{5, 12}}) {
    for (const bool needs_input_gradient : {false, true}) {
      for (const bool has_root : {false, true}) {
        const EdgesPtr edges = Ring(40, 3);
        const at::Tensor x =
            Values({40, in}).requires_grad_(needs_input_gradient);
        const at::Tensor weight = Values({out, in}).requires_grad_();
        const at::Tensor bias = Values({out}).requires_grad_();
        std::optional<at::Tensor> root;
        if (has_root) root = Values({out, in}).requires_grad_();
        const at::Tensor direction = Values({40, out});
        const auto run = [&](const auto& function) {
          const at::Tensor result = function();
          (result * direction).sum().backward();
          std::vector<at::Tensor> found = {result.detach()};
          for (const at::Tensor& leaf :
               {x, weight, bias, root.value_or(weight)}) {
            found.push_back(leaf.grad().defined() ? leaf.grad().clone()
                                                  : at::Tensor(at::zeros({})));
          }
          for (const at::Tensor& leaf :
               {x, weight, bias, root.value_or(weight)}) {
            leaf.mutable_grad().reset();
          }
          return found;
        };
        const auto fused = run([&] {
          return PropagateLinear(x, weight, bias, root, edges, activation);
        });
        const auto apart = run([&] {
          return Activate(PropagateLinear(x, weight, bias, root, edges),
                          activation);
        });
        for (size_t i = 0; i < fused.size(); ++i) {
          EXPECT_TRUE(at::equal(fused[i], apart[i])) << i;
        }
        EXPECT_GT(fused[0].abs().max().item<float>(), 0);
      }
    }
  }
}

TEST(LinearTest, AnActivationOfItsOwnIsThatOfAnotherFunction) {
  const ReluActivation activation = {
      DropoutPattern(0.5, 1, {.epoch = 0, .batch = 0}, 0)};
  const at::Tensor x = Values({40, 7}).requires_grad_();
  const at::Tensor weight = Values({9, 7}).requires_grad_();
  const at::Tensor fused = Linear(x, weight, std::nullopt, activation);
  (fused * fused).sum().backward();
  const at::Tensor x_gradient = x.grad().clone();
  const at::Tensor weight_gradient = weight.grad().clone();
  x.mutable_grad().reset();
  weight.mutable_grad().reset();
  const at::Tensor apart = Activate(Linear(x, weight), activation);
  EXPECT_TRUE(at::equal(fused, apart));
  (apart * apart).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), x_gradient));
  EXPECT_TRUE(at::equal(weight.grad(), weight_gradient));
}

TEST(ActivateTest, GradientIsScaledWhereKept) {
  const at::Tensor x = Values({10, 20}).requires_grad_();
  const DropoutPattern pattern(0.5, 1, {.epoch = 0, .batch = 0}, 0);
  const at::Tensor result = Activate(x * 2, ReluActivation{pattern});
  result.sum().backward();
  const at::Tensor flat = x.detach().flatten();
  const at::Tensor gradient = x.grad().flatten();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const bool passes = pattern.Keeps(i) && flat[i].item<float>() > 0;
    ASSERT_EQ(gradient[i].item<float>(), passes ? 4 : 0) << i;
  }
}

// The number of threads is a setting of the calling thread.
TEST(BackwardTest, RunsOnTheCallingThread) {
  const at::Tensor x = Values({10, 20}).requires_grad_();
  const at::Tensor inner = x * 2;
  std::thread::id seen;
  inner.register_hook(
      [&](const at::Tensor&) { seen = std::this_thread::get_id(); });
  Linear(inner, Values({5, 20})).sum().backward();
  EXPECT_EQ(seen, std::this_thread::get_id());
}

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
  // Rows taken twice have the sum of both gradients; unused sets have none.
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
