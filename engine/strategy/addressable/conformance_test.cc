#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Addressable, StrategyConformanceTest,
    ::testing::Values(ConformanceCase{MemoryOptions{}, {}},
                      ConformanceCase{MemoryOptions{}, {4, 3}},
                      ConformanceCase{MmapOptions{}, {}},
                      ConformanceCase{MmapOptions{}, {4, 3}},
                      ConformanceCase{MmapOptions{.read_ahead = true}, {}},
                      ConformanceCase{MemoryOptions{}, {1, 1, 0}},
                      ConformanceCase{MmapOptions{}, {4, 3, 0}}),
    ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(
    Addressable, ShardConformanceTest,
    ::testing::Values(ConformanceCase{MemoryOptions{}, {}},
                      ConformanceCase{MemoryOptions{}, {4, 3}},
                      ConformanceCase{MmapOptions{}, {2, 2}}),
    ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(
    Addressable, TypedConformanceTest,
    ::testing::Values(ConformanceCase{MemoryOptions{}, {4, 3}},
                      ConformanceCase{MmapOptions{}, {4, 3}},
                      ConformanceCase{MmapOptions{.read_ahead = true}, {}},
                      ConformanceCase{MemoryOptions{}, {2, 1, 0}},
                      ConformanceCase{MmapOptions{}, {1, 2, 0}}),
    ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
