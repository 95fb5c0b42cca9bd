#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// A few rows and lists, with the tables of their caches.
constexpr GinexOptions kSmall = {
    .cpu_cache_bytes = 600 * 8 + 4000, .superbatch = 3, .io_depth = 2};
// Everything stays; the epoch is shorter than a superbatch.
constexpr GinexOptions kLarge = {.cpu_cache_bytes = 1 << 20, .superbatch = 100};
constexpr GinexOptions kOneByOne = {
    .cpu_cache_bytes = 20000, .neighbor_cache_bytes = 9000, .superbatch = 1};

INSTANTIATE_TEST_SUITE_P(Ginex, StrategyConformanceTest,
                         ::testing::Values(ConformanceCase{GinexOptions{}, {}},
                                           ConformanceCase{GinexOptions{},
                                                           {4, 3}},
                                           ConformanceCase{kSmall, {4, 3}},
                                           ConformanceCase{kLarge, {2, 4}},
                                           ConformanceCase{kOneByOne, {1, 1}}),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Ginex, ShardConformanceTest,
                         ::testing::Values(ConformanceCase{GinexOptions{},
                                                           {4, 3}},
                                           ConformanceCase{kSmall, {2, 1}}),
                         ConformanceCaseName);

// Tables for all nodes, and some rows and lists.
constexpr GinexOptions kSmallTyped = {
    .cpu_cache_bytes = 940 * 8 + 12000, .superbatch = 3, .io_depth = 2};

INSTANTIATE_TEST_SUITE_P(Ginex, TypedConformanceTest,
                         ::testing::Values(ConformanceCase{GinexOptions{},
                                                           {4, 3}},
                                           ConformanceCase{kSmallTyped, {2, 1}},
                                           ConformanceCase{kLarge, {2, 4}}),
                         ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
