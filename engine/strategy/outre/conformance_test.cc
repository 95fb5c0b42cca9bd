#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// A few rows; a few lists in the static cache, and macro batches by the way.
constexpr OutreOptions kSmall = {.cpu_cache_bytes = 600 * 8 + 4000,
                                 .neighbor_cache_bytes = 100'000,
                                 .superbatch = 3,
                                 .io_depth = 2};
// Too little memory for macro batches.
constexpr OutreOptions kStatic = {.cpu_cache_bytes = 20000, .superbatch = 2};
// Everything stays; the epoch is shorter than a superbatch.
constexpr OutreOptions kLarge = {.cpu_cache_bytes = 1 << 20, .superbatch = 100};

INSTANTIATE_TEST_SUITE_P(
    Outre, StrategyConformanceTest,
    ::testing::Values(ConformanceCase{OutreOptions{}, {}, /*by_parts=*/true},
                      ConformanceCase{kSmall, {1, 1}, /*by_parts=*/true},
                      ConformanceCase{kSmall, {4, 3}, /*by_parts=*/true},
                      ConformanceCase{kStatic, {2, 1}, /*by_parts=*/true},
                      ConformanceCase{kLarge, {2, 4}, /*by_parts=*/true},
                      // Seeds without parts, as in validation: no macro
                      // batches.
                      ConformanceCase{kSmall, {2, 2}}),
    ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(
    Outre, ShardConformanceTest,
    ::testing::Values(ConformanceCase{kLarge, {4, 3}, /*by_parts=*/true},
                      ConformanceCase{kSmall, {2, 1}, /*by_parts=*/true}),
    ConformanceCaseName);

// Tables for all nodes, some rows, and macro batches.
constexpr OutreOptions kSmallTyped = {.cpu_cache_bytes = 940 * 8 + 12000,
                                      .neighbor_cache_bytes = 200'000,
                                      .superbatch = 3,
                                      .io_depth = 2};

INSTANTIATE_TEST_SUITE_P(
    Outre, TypedConformanceTest,
    ::testing::Values(
        ConformanceCase{OutreOptions{}, {4, 3}, /*by_parts=*/true},
        ConformanceCase{kSmallTyped, {2, 1}, /*by_parts=*/true},
        ConformanceCase{kLarge, {2, 4}, /*by_parts=*/true},
        ConformanceCase{kSmallTyped, {2, 2}}),
    ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
