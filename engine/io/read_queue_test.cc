#include "engine/io/read_queue.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
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

// Tests of every kind of queue.

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFileBytes = 64 * kPage - 1000;

class ReadQueueTest : public testing::TestWithParam<ReadQueueKind> {
 protected:
  void SetUp() override {
    auto queues = ReadQueues::Create({.kind = GetParam()});
    if (absl::IsUnimplemented(queues.status()) ||
        absl::IsPermissionDenied(queues.status())) {
      GTEST_SKIP() << "no io_uring here: " << queues.status();
    }
    ASSERT_TRUE(queues.ok()) << queues.status();
    queues_ = *std::move(queues);
    WriteTestBytes(scratch_.Path("f"), kFileBytes);
    auto device = FileSystem::Posix().OpenBlockDevice(scratch_.Path("f"), {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  ReadQueues::Handle Take(size_t depth) {
    auto queue = queues_->Take(depth);
    EXPECT_TRUE(queue.ok()) << queue.status();
    return *std::move(queue);
  }

  absl::Span<std::byte> Page(size_t number) {
    return memory_.bytes().subspan(number * kPage, kPage);
  }

  /// Reads page `i` of the file to page `i` of the memory.
  static ReadRequest PageRequest(BlockDevice& device, size_t number,
                                 absl::Span<std::byte> out) {
    return {&device, number * kPage, out, number};
  }

  /// The result of one read alone.
  absl::Status ReadOne(BlockDevice& device, uint64_t offset,
                       absl::Span<std::byte> out) {
    const ReadQueues::Handle queue = Take(4);
    std::vector<ReadResult> results;
    absl::Status status = queue->Submit({ReadRequest{&device, offset, out}});
    if (!status.ok()) return status;
    status = queue->Wait(1, results);
    if (!status.ok()) return status;
    EXPECT_EQ(results.size(), 1u);
    return results[0].status;
  }

  std::unique_ptr<ReadQueues> queues_;
  ScratchDirectory scratch_;
  std::unique_ptr<BlockDevice> device_;
  AlignedMemory memory_ = NewTestMemory(64 * kPage);
};

TEST_P(ReadQueueTest, ReadsWhatIsAskedAtEveryDepth) {
  for (const size_t depth : {1, 2, 7, 63, 64}) {
    const ReadQueues::Handle queue = Take(depth);
    EXPECT_EQ(queue->depth(), depth);
    RandomStream random(depth, RandomPurpose::kGenerator);
    std::vector<uint64_t> page_of(depth);
    std::vector<size_t> free(depth);
    for (size_t i = 0; i < depth; ++i) free[i] = i;
    std::vector<ReadResult> results;
    for (size_t left = 500; left > 0 || queue->in_flight() > 0;) {
      std::vector<ReadRequest> requests;
      for (; !free.empty() && left > 0; --left) {
        const size_t slot = free.back();
        free.pop_back();
        page_of[slot] = random.Below(63);
        requests.push_back(
            {device_.get(), page_of[slot] * kPage, Page(slot), slot});
      }
      ASSERT_TRUE(queue->Submit(requests).ok());
      ASSERT_TRUE(queue->Wait(1 + random.Below(depth), results).ok());
      ASSERT_FALSE(results.empty());
      for (const ReadResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        ASSERT_TRUE(
            AreTestBytes(page_of[result.tag] * kPage, Page(result.tag)));
        free.push_back(result.tag);
      }
    }
    EXPECT_EQ(free.size(), depth);
  }
}

TEST_P(ReadQueueTest, WaitsForAsManyAsAskedAndNotForMoreThanThereAre) {
  const ReadQueues::Handle queue = Take(8);
  std::vector<ReadResult> results(3);
  ASSERT_TRUE(queue->Wait(5, results).ok());
  EXPECT_TRUE(results.empty());
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < 8; ++i) {
    requests.push_back(PageRequest(*device_, i, Page(i)));
  }
  ASSERT_TRUE(queue->Submit(requests).ok());
  std::set<uint64_t> tags;
  while (queue->in_flight() > 0) {
    const size_t before = queue->in_flight();
    ASSERT_TRUE(queue->Wait(5, results).ok());
    EXPECT_GE(results.size(), std::min<size_t>(before, 5));
    EXPECT_EQ(queue->in_flight(), before - results.size());
    for (const ReadResult& result : results) {
      EXPECT_TRUE(tags.insert(result.tag).second);
    }
    ASSERT_TRUE(queue->Wait(0, results).ok());
    for (const ReadResult& result : results) tags.insert(result.tag);
  }
  EXPECT_EQ(tags.size(), 8u);
}

TEST_P(ReadQueueTest, ReadsUpToTheEndWhenAskedForMore) {
  const auto out = memory_.bytes().first(2 * kPage);
  ASSERT_TRUE(ReadOne(*device_, 62 * kPage, out).ok());
  EXPECT_TRUE(AreTestBytes(62 * kPage, out.first(kFileBytes - 62 * kPage)));
  EXPECT_EQ(memory_.bytes()[2 * kPage], std::byte{0xee});
}

TEST_P(ReadQueueTest, ReadsBeyondTheEndAreDataLoss) {
  const absl::Status status = ReadOne(*device_, 64 * kPage, Page(0));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(std::string(status.message()).find("/f: ends at byte 262144"),
            std::string::npos)
      << status;
}

TEST_P(ReadQueueTest, AFileCutShortSinceItWasOpenedIsDataLoss) {
  ASSERT_EQ(::truncate(scratch_.Path("f").c_str(), 6000), 0);
  const absl::Status status =
      ReadOne(*device_, 0, memory_.bytes().first(4 * kPage));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(std::string(status.message()).find("ends at byte 6000"),
            std::string::npos)
      << status;
  EXPECT_TRUE(absl::IsDataLoss(ReadOne(*device_, 8 * kPage, Page(0))));
  EXPECT_TRUE(ReadOne(*device_, 0, Page(0)).ok());
}

TEST_P(ReadQueueTest, RefusesWhatItCannotRead) {
  const auto direct = NewMemoryDevice(TestBytes(9000), 512);
  const ReadQueues::Handle queue = Take(2);
  const ReadRequest good{direct.get(), 0, Page(0)};
  const std::vector<std::vector<ReadRequest>> refused = {
      {good, {direct.get(), 1, Page(1)}},
      {good, {direct.get(), 0, Page(1).first(100)}},
      {good, {direct.get(), 0, {}}},
      {good, {direct.get(), 0, Page(1).subspan(8, 512)}},
      {good, good, good}};
  for (const std::vector<ReadRequest>& requests : refused) {
    EXPECT_TRUE(absl::IsInvalidArgument(queue->Submit(requests)));
    EXPECT_EQ(queue->in_flight(), 0u);
  }
}

TEST_P(ReadQueueTest, TriesAgainAfterEio) {
  FaultyDevice device(*device_);
  for (int64_t nth = 1; nth <= 2; ++nth) {
    device.Inject({.nth = nth, .error = EIO});
    const absl::Status status = ReadOne(device, kPage, Page(0));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(AreTestBytes(kPage, Page(0)));
    EXPECT_EQ(device.attempts(), nth == 1 ? 2 : 1);
  }
  EXPECT_EQ(queues_->statistics().retries, 1);
}

TEST_P(ReadQueueTest, GivesUpAfterThreeRepetitionsAndFailsThatReadAlone) {
  FaultyDevice faulty(*device_);
  faulty.Inject({.for_good = true, .error = EIO});
  const ReadQueues::Handle queue = Take(3);
  ASSERT_TRUE(queue
                  ->Submit({PageRequest(*device_, 0, Page(0)),
                            PageRequest(faulty, 1, Page(1)),
                            PageRequest(*device_, 2, Page(2))})
                  .ok());
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue->Wait(3, results).ok());
  ASSERT_EQ(results.size(), 3u);
  for (const ReadResult& result : results) {
    EXPECT_EQ(result.status.ok(), result.tag != 1) << result.status;
    if (result.tag != 1) continue;
    EXPECT_TRUE(absl::IsUnavailable(result.status));
    EXPECT_NE(std::string(result.status.message())
                  .find("/f: reading at byte 4096: Input/output error"),
              std::string::npos)
        << result.status;
  }
  EXPECT_EQ(faulty.attempts(), 4);
  EXPECT_EQ(queues_->statistics().failed_reads, 1);
  EXPECT_EQ(queues_->statistics().reads, 3);
}

TEST_P(ReadQueueTest, OtherErrorsAreFinal) {
  FaultyDevice device(*device_);
  device.Inject({.for_good = true, .error = EBADMSG});
  EXPECT_FALSE(ReadOne(device, 0, Page(0)).ok());
  EXPECT_EQ(device.attempts(), 1);
}

TEST_P(ReadQueueTest, GoesOnAfterShortReads) {
  const auto base = NewMemoryDevice(TestBytes(kFileBytes), 512);
  FaultyDevice device(*base);
  device.Inject({.for_good = true,
                 .effect = DeviceFault::Effect::kShorten,
                 .bytes = 1000});
  const absl::Status status = ReadOne(device, kPage, Page(0));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(AreTestBytes(kPage, Page(0)));
  // 512 bytes each time, since 1000 end within a page.
  EXPECT_EQ(device.attempts(), 8);
  device.Inject({.nth = 2, .effect = DeviceFault::Effect::kShorten});
  EXPECT_TRUE(ReadOne(device, 0, Page(0)).ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadOne(device, 0, Page(0))));
}

TEST_P(ReadQueueTest, DestroyingAQueueWaitsForItsReads) {
  for (int i = 0; i < 20; ++i) {
    auto memory = std::make_unique<AlignedMemory>(NewTestMemory(32 * kPage));
    ReadQueues::Handle queue = Take(32);
    std::vector<ReadRequest> requests;
    for (size_t page = 0; page < 32; ++page) {
      requests.push_back(PageRequest(
          *device_, page, memory->bytes().subspan(page * kPage, kPage)));
    }
    ASSERT_TRUE(queue->Submit(requests).ok());
    queue.reset();
    // Nothing is written there any more: a sanitizer would tell.
    for (size_t page = 0; page < 32; ++page) {
      ASSERT_TRUE(AreTestBytes(page * kPage,
                               memory->bytes().subspan(page * kPage, kPage)));
    }
  }
  EXPECT_EQ(queues_->statistics().in_flight, 0);
  EXPECT_EQ(queues_->statistics().reads, 20 * 32);
}

TEST_P(ReadQueueTest, ReadsIntoRegisteredMemory) {
  const ReadQueues::Handle queue = Take(8);
  const auto known = memory_.bytes().first(8 * kPage);
  for (int round = 0; round < 3; ++round) {
    const Registration registration = queue->Register(*device_, known);
    EXPECT_EQ(registration.file, queue->Register(*device_, {}).file);
    queue->Unregister(*device_, {});
    std::vector<ReadRequest> requests;
    for (size_t i = 0; i < 4; ++i) {  // Registered, and not.
      requests.push_back(PageRequest(*device_, i, Page(i)));
      requests.push_back(PageRequest(*device_, 30 + i, Page(30 + i)));
    }
    ASSERT_TRUE(queue->Submit(requests).ok());
    std::vector<ReadResult> results;
    ASSERT_TRUE(queue->Wait(8, results).ok());
    ASSERT_EQ(results.size(), 8u);
    for (const ReadResult& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_TRUE(AreTestBytes(result.tag * kPage, Page(result.tag)));
    }
    queue->Unregister(*device_, known);
    if (GetParam() == ReadQueueKind::kThreads) {
      EXPECT_FALSE(registration.file || registration.memory);
    }
  }
}

TEST_P(ReadQueueTest, MoreRegistrationsThanTheRingHasRoomForAreReadWithout) {
  const ReadQueues::Handle queue = Take(1);
  for (size_t i = 0; i < 40; ++i) queue->Register(*device_, Page(i));
  std::vector<ReadResult> results;
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(queue->Submit({PageRequest(*device_, i, Page(i))}).ok());
    ASSERT_TRUE(queue->Wait(1, results).ok());
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    ASSERT_TRUE(AreTestBytes(i * kPage, Page(i)));
  }
  for (size_t i = 0; i < 40; ++i) queue->Unregister(*device_, Page(i));
}

TEST_P(ReadQueueTest, CountsForTheMetrics) {
  const ReadQueues::Handle queue = Take(4);
  ASSERT_TRUE(queue
                  ->Submit({PageRequest(*device_, 0, Page(0)),
                            PageRequest(*device_, 63, Page(1))})
                  .ok());
  EXPECT_EQ(queues_->statistics().in_flight, 2);
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue->Wait(2, results).ok());
  const ReadStatistics statistics = queues_->statistics();
  EXPECT_EQ(statistics.in_flight, 0);
  EXPECT_EQ(statistics.reads, 2);
  EXPECT_EQ(statistics.bytes, static_cast<int64_t>(2 * kPage - 1000));
  EXPECT_GT(statistics.latency_seconds, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReadQueueTest,
                         testing::Values(ReadQueueKind::kIoUring,
                                         ReadQueueKind::kThreads),
                         [](const auto& info) -> std::string {
                           return info.param == ReadQueueKind::kIoUring
                                      ? "IoUring"
                                      : "Threads";
                         });

TEST(ThreadQueueTest, OtherReadsAreDoneWhileOneIsSlow) {
  const auto base = NewMemoryDevice(TestBytes(8 * kPage));
  FaultyDevice device(*base);
  const auto queues = *ReadQueues::Create({.kind = ReadQueueKind::kThreads});
  const ReadQueues::Handle queue = *queues->Take(4);
  AlignedMemory memory = NewTestMemory(4 * kPage);
  device.Inject({.nth = 1, .effect = DeviceFault::Effect::kHold});
  std::vector<ReadResult> results;
  ASSERT_TRUE(
      queue->Submit({{&device, 0, memory.bytes().first(kPage), 100}}).ok());
  device.WaitUntilHeld(1);
  for (uint64_t tag = 1; tag < 4; ++tag) {
    const auto out = memory.bytes().subspan(tag * kPage, kPage);
    ASSERT_TRUE(queue->Submit({{&device, tag * kPage, out, tag}}).ok());
    ASSERT_TRUE(queue->Wait(1, results).ok());
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].tag, tag);
  }
  ASSERT_TRUE(queue->Wait(0, results).ok());
  EXPECT_TRUE(results.empty());
  device.Release();
  ASSERT_TRUE(queue->Wait(1, results).ok());
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].tag, 100u);
  EXPECT_TRUE(AreTestBytes(0, memory.bytes().first(kPage)));
}

TEST(ThreadQueueTest, AQueueGivenBackWaitsForItsSlowRead) {
  const auto base = NewMemoryDevice(TestBytes(kPage));
  FaultyDevice device(*base);
  const auto queues = *ReadQueues::Create({.kind = ReadQueueKind::kThreads});
  ReadQueues::Handle queue = *queues->Take(1);
  AlignedMemory memory = NewTestMemory(kPage);
  device.Inject({.effect = DeviceFault::Effect::kHold});
  ASSERT_TRUE(queue->Submit({{&device, 0, memory.bytes(), 0}}).ok());
  device.WaitUntilHeld(1);
  std::thread release([&device] { device.Release(); });
  queue.reset();
  release.join();
  EXPECT_TRUE(AreTestBytes(0, memory.bytes()));
}

}  // namespace

}  // namespace hearth::io
