#include "engine/strategy/pass.h"
#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// All rows are packed; some are in memory, others in the disk cache, since the
// disk is too small for all in packs; all are in memory.
constexpr DiskgnnOptions kPacked = {.disk_cache_bytes = 0};
constexpr DiskgnnOptions kSmall = {.cpu_cache_bytes = 4000,
                                   .disk_limit_bytes = 700'000,
                                   .prepare_memory_bytes = 64 << 20,
                                   .io_depth = 2};
constexpr DiskgnnOptions kLarge = {.cpu_cache_bytes = 1 << 20};

constexpr PipelineOptions kInSlabs = {
    .samplers = 2, .extractors = 1, .topology = TopologyPlace::kSlabs};

INSTANTIATE_TEST_SUITE_P(Diskgnn, StrategyConformanceTest,
                         ::testing::Values(ConformanceCase{DiskgnnOptions{},
                                                           {}},
                                           ConformanceCase{kPacked, {4, 3}},
                                           ConformanceCase{kSmall, {4, 3}},
                                           ConformanceCase{kSmall, {2, 1}},
                                           ConformanceCase{kLarge, {1, 2}},
                                           ConformanceCase{kSmall, kInSlabs}),
                         ConformanceCaseName);

constexpr DiskgnnOptions kSmallShards = {
    .cpu_cache_bytes = 4000, .disk_limit_bytes = 1'500'000, .io_depth = 2};

INSTANTIATE_TEST_SUITE_P(
    Diskgnn, ShardConformanceTest,
    ::testing::Values(ConformanceCase{kSmallShards, {4, 3}},
                      ConformanceCase{kPacked, {1, 1}},
                      ConformanceCase{kSmallShards, kInSlabs}),
    ConformanceCaseName);

constexpr DiskgnnOptions kSmallTyped = {
    .cpu_cache_bytes = 4000, .disk_limit_bytes = 2'000'000, .io_depth = 2};

INSTANTIATE_TEST_SUITE_P(
    Diskgnn, TypedConformanceTest,
    ::testing::Values(ConformanceCase{DiskgnnOptions{}, {2, 1}},
                      ConformanceCase{kPacked, {4, 3}},
                      ConformanceCase{kSmallTyped, {4, 3}},
                      ConformanceCase{kLarge, {1, 2}},
                      ConformanceCase{kSmallTyped, kInSlabs}),
    ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
