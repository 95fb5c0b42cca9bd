#ifndef HEARTH_TESTS_CONFORMANCE_SHARD_CONFORMANCE_H_
#define HEARTH_TESTS_CONFORMANCE_SHARD_CONFORMANCE_H_

#include "gtest/gtest.h"
#include "tests/conformance/conformance_case.h"

namespace hearth::strategy {

/// The suite for batches that several trainers share: in every strategy the
/// shards of a batch are, together, the batch as one trainer would get it, and
/// each shard is, bit for bit, that of `memory`. Instantiated like
/// StrategyConformanceTest.
class ShardConformanceTest : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
};

}  // namespace hearth::strategy

#endif  // HEARTH_TESTS_CONFORMANCE_SHARD_CONFORMANCE_H_
