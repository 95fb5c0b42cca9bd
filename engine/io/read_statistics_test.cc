#include "engine/io/read_statistics.h"

#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::io {
namespace {

TEST(ReadStatisticsTest, BoundsDouble) {
  EXPECT_DOUBLE_EQ(LatencyBoundSeconds(0), 1e-6);
  EXPECT_DOUBLE_EQ(LatencyBoundSeconds(10), 1024e-6);
  EXPECT_DOUBLE_EQ(LatencyBoundSeconds(kLatencyBounds - 1), 8.388608);
}

TEST(ReadStatisticsTest, CountsWhatIsReported) {
  ReadCounters counters;
  counters.Submitted(4);
  counters.Succeeded(4096, 0.25e-3);
  counters.Succeeded(512, 0.5e-3);
  counters.Failed(0.25);
  counters.Retried();
  counters.Waited(1.5);
  counters.Waited(0.25);
  const ReadStatistics statistics = counters.Snapshot();
  EXPECT_EQ(statistics.reads, 3);
  EXPECT_EQ(statistics.failed_reads, 1);
  EXPECT_EQ(statistics.retries, 1);
  EXPECT_EQ(statistics.bytes, 4608);
  EXPECT_EQ(statistics.in_flight, 1);
  EXPECT_NEAR(statistics.wait_seconds, 1.75, 1e-9);
  EXPECT_NEAR(statistics.latency_seconds, 0.25075, 1e-9);
}

TEST(ReadStatisticsTest, ALatencyFallsAtOrBelowItsBound) {
  for (size_t i = 0; i < kLatencyBounds; ++i) {
    ReadCounters counters;
    counters.Succeeded(1, LatencyBoundSeconds(i) * 0.99);
    counters.Succeeded(1, LatencyBoundSeconds(i) * 1.01);
    const ReadStatistics statistics = counters.Snapshot();
    EXPECT_EQ(statistics.latency_counts[i], 1) << i;
    EXPECT_EQ(statistics.latency_counts[i + 1], 1) << i;
  }
  ReadCounters counters;
  counters.Failed(0);
  counters.Failed(-1);  // A clock that was set back.
  counters.Failed(1e6);
  const ReadStatistics statistics = counters.Snapshot();
  EXPECT_EQ(statistics.latency_counts[0], 2);
  EXPECT_EQ(statistics.latency_counts[kLatencyBounds], 1);
}

TEST(ReadStatisticsTest, IsExactWhateverThreadsCount) {
  ReadCounters counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counters] {
      for (int i = 0; i < 10'000; ++i) {
        counters.Submitted(1);
        counters.Succeeded(512, 1e-6 * i);
      }
    });
  }
  for (int i = 0; i < 1000; ++i) {
    const ReadStatistics statistics = counters.Snapshot();
    ASSERT_GE(statistics.in_flight, 0);
    ASSERT_EQ(std::accumulate(statistics.latency_counts.begin(),
                              statistics.latency_counts.end(), int64_t{0}),
              statistics.reads);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.Snapshot().reads, 40'000);
  EXPECT_EQ(counters.Snapshot().bytes, 40'000 * 512);
  EXPECT_EQ(counters.Snapshot().in_flight, 0);
}

}  // namespace
}  // namespace hearth::io
