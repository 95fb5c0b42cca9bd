#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// With the whole graph in memory, training is that of `memory`.
constexpr MariusOptions kAll = {.partitions = 7,
                                .partition_buffer_bytes = 1 << 30};

INSTANTIATE_TEST_SUITE_P(Marius, StrategyConformanceTest,
                         ::testing::Values(ConformanceCase{kAll, {}},
                                           ConformanceCase{kAll, {4, 3}}),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Marius, ShardConformanceTest,
                         ::testing::Values(ConformanceCase{kAll, {4, 3}}),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Marius, TypedConformanceTest,
                         ::testing::Values(ConformanceCase{kAll, {4, 3}}),
                         ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
