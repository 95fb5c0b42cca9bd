#include "engine/model/graph_functions.h"

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/model/matrix_product.h"
#include "engine/model/test_values.h"
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
  // Three products of sources for one of destinations.
  EXPECT_TRUE(SumsFirst(sizes));
  // A whole graph: as many products either way, but narrower sums.
  sizes.sources = sizes.destinations;
  EXPECT_FALSE(SumsFirst(sizes));
  sizes.needs_input_gradient = true;
  EXPECT_FALSE(SumsFirst(sizes));
  // Wider sums.
  std::swap(sizes.in, sizes.out);
  EXPECT_TRUE(SumsFirst(sizes));
}

TEST(PropagateLinearTest, BothOrdersAgreeWithAutogradsOwn) {
  // 12 to 5 columns transforms first, 5 to 12 sums first.
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

// The number of threads is set for the thread that calls.
TEST(BackwardTest, RunsOnTheCallingThread) {
  const at::Tensor x = Values({10, 20}).requires_grad_();
  const at::Tensor inner = x * 2;
  std::thread::id seen;
  inner.register_hook(
      [&](const at::Tensor&) { seen = std::this_thread::get_id(); });
  Linear(inner, Values({5, 20})).sum().backward();
  EXPECT_EQ(seen, std::this_thread::get_id());
}

}  // namespace
}  // namespace hearth::model
