#include "engine/model/operators/matrix_product.h"

#include <ATen/ATen.h>

#include <functional>
#include <limits>
#include <vector>

#include "engine/model/operators/values_fixture.h"
#include "engine/model/runtime/torch_boundary.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using train::Precision;

// The factor as products of this precision round it, in double precision.
at::Tensor Factor(const at::Tensor& x, Precision precision) {
  return precision == Precision::kBfloat16 ? x.to(at::kBFloat16).to(at::kDouble)
                                           : x.to(at::kDouble);
}

std::vector<Precision> Precisions() {
  std::vector<Precision> precisions = {Precision::kFloat32};
  if (HasProducts(Precision::kBfloat16)) {
    precisions.push_back(Precision::kBfloat16);
  }
  return precisions;
}

// Tolerance for sums of up to 40,000 rounded terms below 1.
void ExpectClose(const at::Tensor& result, const at::Tensor& expected) {
  ASSERT_EQ(result.sizes(), expected.sizes());
  EXPECT_EQ(result.dtype(), at::kFloat);
  EXPECT_TRUE(at::allclose(result.to(at::kDouble), expected, 1e-4, 2e-3))
      << (result.to(at::kDouble) - expected).abs().max();
}

struct Sizes {
  int64_t rows;
  int64_t in;
  int64_t out;
};

// Sizes around those of blocks, tiles and parts.
std::vector<Sizes> AllSizes() {
  std::vector<Sizes> all;
  for (const int64_t rows :
       {0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 257, 1024, 1025, 1999}) {
    all.push_back({rows, 24, 10});
  }
  for (const int64_t width : {1, 3, 255, 256, 257, 600}) {
    all.push_back({100, width, 7});
    all.push_back({100, 33, width});
  }
  all.push_back({40000, 24, 10});
  return all;
}

TEST(MatrixProductTest, AgreesWithDoublePrecision) {
  for (const Precision precision : Precisions()) {
    const ProductPrecision scope(precision);
    for (const Sizes& sizes : AllSizes()) {
      const at::Tensor x = Values({sizes.rows, sizes.in});
      const at::Tensor w = Values({sizes.out, sizes.in});
      const at::Tensor g = Values({sizes.rows, sizes.out});
      const at::Tensor exact_x = Factor(x, precision);
      const at::Tensor exact_w = Factor(w, precision);
      const at::Tensor exact_g = Factor(g, precision);
      ExpectClose(Product(x, w), at::matmul(exact_x, exact_w.t()));
      ExpectClose(Product(g, w.t()), at::matmul(exact_g, exact_w));
      ExpectClose(TransposedProduct(g, x), at::matmul(exact_g.t(), exact_x));
    }
  }
}

TEST(MatrixProductTest, SumsTermsAndBias) {
  const at::Tensor x = Values({1100, 40});
  const at::Tensor y = x.narrow(0, 0, 1100).mul(0.5);
  const at::Tensor w = Values({30, 40});
  const at::Tensor bias = Values({30});
  ExpectClose(
      SumOfProducts({{x, w}, {y, w}}, bias),
      at::matmul(x.to(at::kDouble) * 1.5, w.t().to(at::kDouble)) + bias);
  at::Tensor sum = Values({1200, 30});
  const at::Tensor expected =
      sum.to(at::kDouble).narrow(0, 0, 1100) +
      at::matmul(x.to(at::kDouble), w.t().to(at::kDouble));
  const at::Tensor rest = sum.narrow(0, 1100, 100).clone();
  AddProduct(x, w, sum.narrow(0, 0, 1100));
  ExpectClose(sum.narrow(0, 0, 1100), expected);
  EXPECT_TRUE(at::equal(sum.narrow(0, 1100, 100), rest));
}

TEST(MatrixProductTest, AProductIsRoundedBeforeItIsAdded) {
  for (const Precision precision : Precisions()) {
    const ProductPrecision scope(precision);
    const at::Tensor x = Values({1100, 40});
    const at::Tensor w = Values({30, 40});
    const at::Tensor sum = Values({1200, 30});
    const at::Tensor expected = sum.clone();
    expected.narrow(0, 0, 1100).add_(Product(x, w));
    AddRoundedProduct(x, w, sum.narrow(0, 0, 1100));
    EXPECT_TRUE(at::equal(sum, expected));
  }
}

TEST(MatrixProductTest, ParametersOfASumGetTheirGradients) {
  for (const int64_t rows : {0, 1, 5000}) {
    const at::Tensor g = Values({rows, 30});
    const std::vector<at::Tensor> xs = {Values({rows, 20}), Values({rows, 9})};
    const RowGradient of_rows = {.gradient = g};
    const ParameterGradients both =
        TransposedProducts(of_rows, xs, /*bias=*/true);
    ASSERT_EQ(both.weights.size(), 2u);
    EXPECT_TRUE(at::equal(both.weights[0], TransposedProduct(g, xs[0])));
    EXPECT_TRUE(at::equal(both.weights[1], TransposedProduct(g, xs[1])));
    EXPECT_TRUE(at::equal(both.bias, ColumnSums(g)));
    EXPECT_FALSE(
        TransposedProducts(of_rows, xs, /*bias=*/false).bias.defined());
    ExpectClose(both.bias, g.to(at::kDouble).sum(0));
  }
}

TEST(MatrixProductTest, AnActivationChangesNoBitByItsPlace) {
  const ReluActivation activation = {
      DropoutPattern(0.3, 1, {.epoch = 0, .batch = 0}, 0)};
  for (const Precision precision : Precisions()) {
    const ProductPrecision scope(precision);
    // Sizes in which tiles of dropout end within a row, and at the last rows.
    for (const Sizes& sizes :
         {Sizes{1, 5, 3}, Sizes{64, 20, 32}, Sizes{1500, 20, 33}}) {
      const at::Tensor x = Values({sizes.rows, sizes.in});
      const at::Tensor w = Values({sizes.out, sizes.in});
      const at::Tensor bias = Values({sizes.out});
      const at::Tensor sum = SumOfProducts({{x, w}}, bias);
      activation.Apply(sum.mutable_data_ptr<float>(), 0, sum.numel());
      const at::Tensor activated = SumOfProducts({{x, w}}, bias, activation);
      EXPECT_TRUE(at::equal(activated, sum));

      const RowGradient rows = {.gradient = Values({sizes.rows, sizes.out}),
                                .activated = activated,
                                .scale = activation.scale()};
      const at::Tensor through = ThroughActivation(rows);
      EXPECT_TRUE(at::equal(
          through,
          at::where(activated == 0, 0.0f, rows.gradient * activation.scale())));
      const auto at_once = TransposedProducts(rows, {x}, /*bias=*/true);
      const auto apart =
          TransposedProducts({.gradient = through}, {x}, /*bias=*/true);
      EXPECT_TRUE(at::equal(at_once.weights[0], apart.weights[0]));
      EXPECT_TRUE(at::equal(at_once.bias, apart.bias));
    }
  }
}

TEST(MatrixProductTest, RowsMayBeRoundedBefore) {
  EXPECT_EQ(FactorType(), at::kFloat);
  if (!HasProducts(Precision::kBfloat16)) GTEST_SKIP() << "no bfloat16 here";
  const ProductPrecision scope(Precision::kBfloat16);
  ASSERT_EQ(FactorType(), at::kBFloat16);
  for (const Sizes& sizes :
       {Sizes{1, 3, 2}, Sizes{64, 32, 16}, Sizes{1337, 257, 20}}) {
    const at::Tensor x = Values({sizes.rows, sizes.in});
    const at::Tensor w = Values({sizes.out, sizes.in});
    const at::Tensor g = Values({sizes.rows, sizes.out});
    const at::Tensor rounded = x.to(at::kBFloat16);
    EXPECT_TRUE(at::equal(Product(rounded, w), Product(x, w)));
    EXPECT_TRUE(
        at::equal(TransposedProduct(g, rounded), TransposedProduct(g, x)));
  }
}

TEST(MatrixProductTest, BiasIsSummedInFloat32WhateverThePrecision) {
  const at::Tensor g = Values({500, 3});
  const at::Tensor sums = ColumnSums(g);
  if (!HasProducts(Precision::kBfloat16)) GTEST_SKIP() << "no bfloat16 here";
  const ProductPrecision scope(Precision::kBfloat16);
  EXPECT_TRUE(at::equal(ColumnSums(g), sums));
}

TEST(MatrixProductTest, ThreadsChangeNoBit) {
  const at::Tensor x = Values({5000, 100});
  const at::Tensor g = Values({5000, 30});
  const at::Tensor w = Values({30, 100});
  const auto with_threads = [](int threads, const auto& function) {
    const ThreadCount scope(threads);
    return at::Tensor(function());
  };
  const auto product = [&] { return Product(x, w); };
  const auto transposed = [&] { return TransposedProduct(g, x); };
  for (const Precision precision : Precisions()) {
    const ProductPrecision scope(precision);
    const at::Tensor product_alone = with_threads(1, product);
    const at::Tensor transposed_alone = with_threads(1, transposed);
    for (const int threads : {2, 3, 5}) {
      EXPECT_TRUE(at::equal(with_threads(threads, product), product_alone));
      EXPECT_TRUE(
          at::equal(with_threads(threads, transposed), transposed_alone));
    }
  }
}

TEST(MatrixProductTest, ColumnSumsAddUpRows) {
  for (const int64_t rows : {0, 1, 5000}) {
    const at::Tensor x = Values({rows, 30});
    ExpectClose(ColumnSums(x), x.to(at::kDouble).sum(0));
  }
}

TEST(MatrixProductTest, NotANumberStaysInItsRow) {
  for (const Precision precision : Precisions()) {
    const ProductPrecision scope(precision);
    const at::Tensor x = Values({70, 40});
    x[65][3] = std::numeric_limits<float>::quiet_NaN();
    const at::Tensor result = Product(x, Values({5, 40}));
    EXPECT_TRUE(result[65].isnan().all().item<bool>());
    EXPECT_EQ(result.isnan().sum().item<int64_t>(), 5);
  }
}

TEST(MatrixProductTest, PrecisionIsThatOfTheInnermostScope) {
  if (!HasProducts(Precision::kBfloat16)) GTEST_SKIP() << "no bfloat16 here";
  // 1.001 is not a bfloat16.
  const at::Tensor x = at::full({1, 1}, 1.001f);
  const at::Tensor w = at::ones({1, 1});
  const ProductPrecision outer(Precision::kBfloat16);
  EXPECT_EQ(Product(x, w).item<float>(), 1.0f);
  {
    const ProductPrecision inner(Precision::kFloat32);
    EXPECT_EQ(Product(x, w).item<float>(), 1.001f);
  }
  EXPECT_EQ(Product(x, w).item<float>(), 1.0f);
}

TEST(MatrixProductTest, AutoIsResolvedToWhatTheProcessorHas) {
  EXPECT_TRUE(HasProducts(ResolvedPrecision(Precision::kAuto)));
  EXPECT_NE(ResolvedPrecision(Precision::kAuto), Precision::kAuto);
  for (const Precision precision : Precisions()) {
    EXPECT_EQ(ResolvedPrecision(precision), precision);
  }
}

}  // namespace
}  // namespace hearth::model
