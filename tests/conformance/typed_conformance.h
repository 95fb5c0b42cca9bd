#ifndef HEARTH_TESTS_CONFORMANCE_TYPED_CONFORMANCE_H_
#define HEARTH_TESTS_CONFORMANCE_TYPED_CONFORMANCE_H_

#include "gtest/gtest.h"
#include "tests/conformance/conformance_case.h"

namespace hearth::strategy {

/// The suite of all strategies on heterographs: node types differ in width and
/// type of their rows, and each strategy delivers, bit for bit, the batches of
/// `memory`, which are checked against the dataset's own arrays. Instantiated
/// like StrategyConformanceTest.
class TypedConformanceTest : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;
};

}  // namespace hearth::strategy

#endif  // HEARTH_TESTS_CONFORMANCE_TYPED_CONFORMANCE_H_
