#include "engine/io/read_probe.h"

#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/read_queue.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/faults.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

// Each look is a millisecond after the last.
class TickingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double SteadySeconds() const override {
    absl::MutexLock lock(&mutex_);
    return seconds_ += 1e-3;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable double seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ReadProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto queues = ReadQueues::Create({.kind = ReadQueueKind::kThreads});
    ASSERT_TRUE(queues.ok()) << queues.status();
    queues_ = *std::move(queues);
  }

  absl::StatusOr<ReadProfile> Probe(BlockDevice& device,
                                    std::stop_token stop = {}) {
    return ProbeReads(device, *queues_, Clock::Real(), 4096, /*depth=*/0,
                      std::move(stop));
  }

  std::unique_ptr<ReadQueues> queues_;
};

TEST_F(ReadProbeTest, FindsAPeakAndWhereItIsReached) {
  const auto device = NewMemoryDevice(TestBytes(1'000'000));
  const auto profile = Probe(*device);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_GT(profile->peak_reads_per_second, 0);
  EXPECT_GE(profile->depth, 1u);
  EXPECT_LE(profile->depth, kMostProbedDepth);
  EXPECT_GT(profile->first_seconds, 0);
  EXPECT_GE(profile->last_seconds, 0);
}

TEST_F(ReadProbeTest, MeasuresAGivenDepthAlone) {
  const auto device = NewMemoryDevice(TestBytes(1'000'000));
  const auto profile =
      ProbeReads(*device, *queues_, Clock::Real(), 4096, /*depth=*/3, {});
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->depth, 3u);
  EXPECT_GT(profile->peak_reads_per_second, 0);
}

TEST_F(ReadProbeTest, EndsOnAClockThatRunsAwayAndOnSmallFiles) {
  const TickingClock clock;
  for (const size_t bytes : {1, 4096, 5000}) {
    const auto device = NewMemoryDevice(TestBytes(bytes));
    const auto profile = ProbeReads(*device, *queues_, clock, 4096, 0, {});
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_GT(profile->peak_reads_per_second, 0);
  }
  const auto empty = NewMemoryDevice("");
  const auto profile = Probe(*empty);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->peak_reads_per_second, 0);
}

TEST_F(ReadProbeTest, TellsErrorsAndStops) {
  const auto base = NewMemoryDevice(TestBytes(1'000'000));
  FaultyDevice device(*base);
  device.Inject({.nth = 400, .for_good = true});
  EXPECT_TRUE(absl::IsUnavailable(Probe(device).status()));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Probe(*base, stop.get_token()).status()));
}

TEST(OverlappingReadsTest, IsThePapersFormula) {
  // Section 4.2: 1.5 million reads/s, 11 us and 25 us to begin, 5 us to end.
  EXPECT_EQ(OverlappingReads({.peak_reads_per_second = 1.5e6,
                              .first_seconds = 36e-6,
                              .last_seconds = 5e-6}),
            1169);
  EXPECT_EQ(OverlappingReads({.peak_reads_per_second = 1000,
                              .first_seconds = 0.001,
                              .last_seconds = 0.001},
                             0.5, 2),
            4);
  EXPECT_EQ(OverlappingReads({}), 0);
}

}  // namespace
}  // namespace hearth::io
