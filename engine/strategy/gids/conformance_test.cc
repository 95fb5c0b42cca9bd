#include "gtest/gtest.h"
#include "tests/conformance/suites.h"

namespace hearth::strategy {
namespace {

// Rows everywhere, and rows that go past the window cache.
constexpr uint64_t kFewRows = 40 * 64;
GidsOptions Small() {
  return {.cpu_cache_bytes = kFewRows,
          .window_cache_bytes = kFewRows,
          .window = 3,
          .merge_max = 4,
          .io_depth = 2};
}
// The BaM baseline: one batch at a time, rows evicted at random.
GidsOptions Bam() {
  return {.cpu_cache_bytes = 0,
          .window_cache_bytes = kFewRows,
          .window = 0,
          .merge_max = 1,
          .io_depth = 1};
}
GidsOptions NoCaches() {
  return {.cpu_cache_bytes = 0,
          .window_cache_bytes = 0,
          .staging_bytes = 1,
          .io_depth = 64};
}
GidsOptions ByFrequency() {
  return {.cpu_cache_bytes = kFewRows,
          .hot = HotNodes::kFrequency,
          .window = 1000,
          .io_depth = 16};
}
// Rows in stripes over three disks; all are read from there, or few.
GidsOptions Striped() {
  GidsOptions options = NoCaches();
  options.striped = true;
  return options;
}
GidsOptions StripedSmall() {
  GidsOptions options = Small();
  options.striped = true;
  return options;
}
INSTANTIATE_TEST_SUITE_P(
    Gids, StrategyConformanceTest,
    ::testing::Values(ConformanceCase{GidsOptions{}, {4, 1}},
                      ConformanceCase{Small(), {4, 1}},
                      ConformanceCase{Bam(), {1, 1}},
                      ConformanceCase{NoCaches(), {2, 1}},
                      ConformanceCase{ByFrequency(), {3, 1}},
                      ConformanceCase{Striped(), {2, 1}},
                      ConformanceCase{StripedSmall(), {4, 1}},
                      ConformanceCase{Small(), {4, 1, 0}},
                      ConformanceCase{ByFrequency(), {2, 1, 0}}),
    ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Gids, ShardConformanceTest,
                         ::testing::Values(ConformanceCase{NoCaches(), {4, 1}},
                                           ConformanceCase{Small(), {2, 1}},
                                           ConformanceCase{Striped(), {2, 1}}),
                         ConformanceCaseName);

GidsOptions ByOutDegree() {
  return {.cpu_cache_bytes = kFewRows,
          .hot = HotNodes::kOutDegree,
          .window_cache_bytes = kFewRows};
}

INSTANTIATE_TEST_SUITE_P(
    Gids, TypedConformanceTest,
    ::testing::Values(ConformanceCase{GidsOptions{}, {4, 1}},
                      ConformanceCase{Small(), {4, 1}},
                      ConformanceCase{Bam(), {1, 1}},
                      ConformanceCase{ByFrequency(), {3, 1}},
                      ConformanceCase{ByOutDegree(), {2, 1}},
                      ConformanceCase{Striped(), {2, 1}},
                      ConformanceCase{StripedSmall(), {3, 1}},
                      ConformanceCase{Small(), {3, 1, 0}},
                      ConformanceCase{ByFrequency(), {1, 1, 0}}),
    ConformanceCaseName);

}  // namespace
}  // namespace hearth::strategy
