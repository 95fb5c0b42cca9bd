#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// Staging for little more than one batch of the largest rows there are, so
// that there is one extractor; short queues.
constexpr GnndriveOptions kSmall = {.staging_bytes = 500 * 37 * 4,
                                    .sample_queue = 1,
                                    .train_queue = 1,
                                    .io_depth = 1};
// All rows stay.
constexpr GnndriveOptions kLarge = {.cpu_cache_bytes = 1 << 20,
                                    .buffered_reads = true};

INSTANTIATE_TEST_SUITE_P(
    Gnndrive, StrategyConformanceTest,
    ::testing::Values(ConformanceCase{GnndriveOptions{}, {}},
                      ConformanceCase{GnndriveOptions{}, {4, 3}},
                      ConformanceCase{kSmall, {4, 3}},
                      ConformanceCase{kLarge, {2, 4}},
                      ConformanceCase{kSmall, {4, 3, 0}}),
    ConformanceCaseName);

// Staging for one shard of the largest batch, so that there is one extractor.
constexpr GnndriveOptions kSmallShards = {.staging_bytes = 600 * 20 * 4,
                                          .sample_queue = 1,
                                          .train_queue = 1,
                                          .io_depth = 1};

INSTANTIATE_TEST_SUITE_P(
    Gnndrive, ShardConformanceTest,
    ::testing::Values(ConformanceCase{GnndriveOptions{}, {4, 3}},
                      ConformanceCase{kSmallShards, {4, 3}}),
    ConformanceCaseName);

// Staging for little more than one batch of papers, authors and venues.
constexpr GnndriveOptions kSmallTyped = {.staging_bytes = 900 * 48 * 4,
                                         .sample_queue = 1,
                                         .train_queue = 1,
                                         .io_depth = 1};

INSTANTIATE_TEST_SUITE_P(
    Gnndrive, TypedConformanceTest,
    ::testing::Values(ConformanceCase{GnndriveOptions{}, {4, 3}},
                      ConformanceCase{kSmallTyped, {4, 3}},
                      ConformanceCase{kLarge, {2, 4}},
                      ConformanceCase{kSmallTyped, {2, 2, 0}}),
    ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
