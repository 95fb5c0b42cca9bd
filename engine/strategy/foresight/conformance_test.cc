#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// Nothing is cached; some rows are; all are; the disk is too small for packs.
constexpr ForesightOptions kNone = {};
constexpr ForesightOptions kSome = {.cpu_cache_bytes = 4000, .io_depth = 2};
constexpr ForesightOptions kAll = {.cpu_cache_bytes = 1 << 20};
constexpr ForesightOptions kDirect = {.cpu_cache_bytes = 4000,
                                      .disk_limit_bytes = 1};

INSTANTIATE_TEST_SUITE_P(Foresight, StrategyConformanceTest,
                         ::testing::Values(ConformanceCase{kNone, {4, 3}},
                                           ConformanceCase{kSome, {}},
                                           ConformanceCase{kSome, {4, 3}},
                                           ConformanceCase{kDirect, {2, 3}},
                                           ConformanceCase{kAll, {1, 2}}),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Foresight, ShardConformanceTest,
                         ::testing::Values(ConformanceCase{kSome, {4, 3}},
                                           ConformanceCase{kDirect, {1, 1}}),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Foresight, TypedConformanceTest,
                         ::testing::Values(ConformanceCase{kNone, {2, 1}},
                                           ConformanceCase{kSome, {4, 3}},
                                           ConformanceCase{kDirect, {4, 3}},
                                           ConformanceCase{kAll, {1, 2}}),
                         ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
