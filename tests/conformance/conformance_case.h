#ifndef HEARTH_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_
#define HEARTH_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_

#include <string>

#include "absl/strings/str_cat.h"
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

#endif  // HEARTH_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_
