#ifndef HEARTH_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_
#define HEARTH_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_

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

namespace hearth::strategy {

/// A strategy that the suites run, and the widths of its pipeline; GPU 0, which
/// may sample, is a fake.
struct ConformanceCase {
  StrategyOptions strategy;
  PipelineOptions pipeline;
  /// Seeds are in the order of parts (parted_planted_graph.h), instead of
  /// shuffled all together.
  bool by_parts = false;
};

/// "<index>_<strategy>_<samplers>_<extractors>", and "_gpu" where one samples.
inline std::string ConformanceCaseName(
    const ::testing::TestParamInfo<ConformanceCase>& info) {
  return absl::StrCat(info.index, "_", Name(info.param.strategy), "_",
                      info.param.pipeline.samplers, "_",
                      info.param.pipeline.extractors,
                      info.param.pipeline.sampling_gpu ? "_gpu" : "");
}

}  // namespace hearth::strategy

namespace hearth::testing {

/// Three stores of plans in folders beside `folder`, as if each were on a disk
/// of its own. Those of one folder are the same in all of the process.
absl::Span<plan::PlanStore* const> DataDisks(const std::string& folder);

/// A planted graph in parts, each within a community.
struct PartedPlantedGraph {
  std::shared_ptr<const plan::Partition> partition;
  /// The training nodes in the order of the parts, with data seed 3.
  std::unique_ptr<sample::SeedOrder> order;

  static PartedPlantedGraph Of(const store::Dataset& dataset);
};

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_
