#ifndef HEARTH_TESTS_CONFORMANCE_STRATEGY_CONFORMANCE_H_
#define HEARTH_TESTS_CONFORMANCE_STRATEGY_CONFORMANCE_H_

#include "gtest/gtest.h"
#include "tests/conformance/conformance_case.h"

namespace hearth::strategy {

/// The suite that every exact strategy passes: it delivers the batches of
/// `memory`, bit for bit, whatever the widths of its pipeline, and keeps the
/// contract of Strategy when a pass fails or is stopped. Each strategy
/// instantiates it in its own folder:
///
///   INSTANTIATE_TEST_SUITE_P(Mine, StrategyConformanceTest,
///                            ::testing::Values(ConformanceCase{...}, ...),
///                            ConformanceCaseName);
class StrategyConformanceTest
    : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;
};

}  // namespace hearth::strategy

#endif  // HEARTH_TESTS_CONFORMANCE_STRATEGY_CONFORMANCE_H_
