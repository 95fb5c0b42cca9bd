#ifndef HEARTH_TESTS_CONFORMANCE_SUITES_H_
#define HEARTH_TESTS_CONFORMANCE_SUITES_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "gtest/gtest.h"

/// The suites that every strategy instantiates in its own folder, their
/// parameters, and the data disks and partitions that they need.

namespace hearth::strategy {

/// A strategy that the suites run, and the widths of its pipeline. GPU 0, which
/// may sample, is a fake.
struct ConformanceCase {
  StrategyOptions strategy;
  PipelineOptions pipeline;
  /// Seeds are in the order of a partition's parts (PartedPlantedGraph),
  /// instead of shuffled all together.
  bool by_parts = false;
};

/// "<index>_<strategy>_<samplers>_<extractors>", and "_gpu" if a GPU samples.
inline std::string ConformanceCaseName(
    const ::testing::TestParamInfo<ConformanceCase>& info) {
  return absl::StrCat(info.index, "_", Name(info.param.strategy), "_",
                      info.param.pipeline.samplers, "_",
                      info.param.pipeline.extractors,
                      info.param.pipeline.sampling_gpu ? "_gpu" : "");
}

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

/// The suite for batches that several trainers share: together, the shards of a
/// batch are the batch that one trainer would get, and each shard is, bit for
/// bit, the shard of `memory`. Instantiated like StrategyConformanceTest.
class ShardConformanceTest : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
};

/// The suite for heterographs whose node types have rows of different widths
/// and element types: each strategy delivers, bit for bit, the batches of
/// `memory`, which are checked against the dataset's arrays. Instantiated like
/// StrategyConformanceTest.
class TypedConformanceTest : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;
};

}  // namespace hearth::strategy

namespace hearth::testing {

/// Three plan stores in folders beside `folder`, as if each were on a disk of
/// its own. The same stores for the same folder in the whole process.
absl::Span<plan::PlanStore* const> DataDisks(const std::string& folder);

/// A partition of a planted graph; each part lies within a community.
struct PartedPlantedGraph {
  std::shared_ptr<const plan::Partition> partition;
  /// The training nodes in the order of the parts, with data seed 3.
  std::unique_ptr<sample::SeedOrder> order;

  static PartedPlantedGraph Of(const store::Dataset& dataset);
};

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_SUITES_H_
