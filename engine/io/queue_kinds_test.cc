#include "engine/io/queue_kinds.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/io/block_device.h"
#include "engine/io/descriptor.h"
#include "engine/io/file_system.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::io {

namespace {

using Next = ReadProgress::Next;

class ReadProgressTest : public testing::Test {
 protected:
  ReadRequest Request(uint64_t offset, size_t size) {
    return {device_.get(), offset, absl::MakeSpan(memory_, size), 7};
  }

  // The file ends within its 10th page.
  const std::unique_ptr<BlockDevice> device_ =
      NewMemoryDevice(std::string(5000, 'x'), 512, "f");
  alignas(512) std::byte memory_[8192];
};

TEST_F(ReadProgressTest, OneAttemptThatReadsAllIsDone) {
  ReadProgress progress(Request(512, 1024));
  EXPECT_EQ(progress.offset(), 512u);
  EXPECT_EQ(progress.out().size(), 1024u);
  EXPECT_EQ(progress.Advance(1024), Next::kDone);
  EXPECT_TRUE(progress.status().ok());
  EXPECT_EQ(progress.bytes(), 1024u);
  EXPECT_EQ(progress.tag(), 7u);
}

TEST_F(ReadProgressTest, GoesOnAtTheLastAlignedOffset) {
  ReadProgress progress(Request(0, 4096));
  EXPECT_EQ(progress.Advance(1000), Next::kRead);
  EXPECT_EQ(progress.offset(), 512u);
  EXPECT_EQ(progress.out().data(), memory_ + 512);
  EXPECT_EQ(progress.out().size(), 3584u);
  EXPECT_EQ(progress.Advance(512), Next::kRead);
  EXPECT_EQ(progress.offset(), 1024u);
  EXPECT_EQ(progress.Advance(3072), Next::kDone);
  EXPECT_TRUE(progress.status().ok());
}

TEST_F(ReadProgressTest, IsDoneAtTheEndOfTheFile) {
  ReadProgress progress(Request(4608, 2048));
  EXPECT_EQ(progress.Advance(392), Next::kDone);
  EXPECT_TRUE(progress.status().ok());
  EXPECT_EQ(progress.bytes(), 392u);
}

TEST_F(ReadProgressTest, AFileThatEndsEarlierThanItDidIsDataLoss) {
  ReadProgress progress(Request(0, 4096));
  EXPECT_EQ(progress.Advance(2048), Next::kRead);
  EXPECT_EQ(progress.Advance(0), Next::kDone);
  EXPECT_EQ(progress.status(),
            absl::DataLossError(
                "f: ends at byte 2048; bytes 0 to 4096 were asked for"));
}

TEST_F(ReadProgressTest, NothingIsThereBeyondTheEnd) {
  ReadProgress progress(Request(5120, 512));
  EXPECT_EQ(progress.Advance(0), Next::kDone);
  EXPECT_TRUE(absl::IsDataLoss(progress.status()));
  EXPECT_EQ(progress.bytes(), 0u);
}

TEST_F(ReadProgressTest, InterruptionsCountForNothing) {
  ReadProgress progress(Request(0, 512));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(progress.Advance(-EINTR), Next::kRead);
  EXPECT_EQ(progress.Advance(512), Next::kDone);
  EXPECT_TRUE(progress.status().ok());
}

TEST_F(ReadProgressTest, GivesUpAtTheFourthEio) {
  for (const int error : {EIO, EAGAIN}) {
    ReadProgress progress(Request(512, 512));
    for (int retry = 1; retry <= kMaxReadRetries; ++retry) {
      EXPECT_EQ(progress.Advance(-error), Next::kRetry);
      EXPECT_EQ(progress.retry(), retry);
    }
    EXPECT_EQ(progress.Advance(-error), Next::kDone);
    EXPECT_TRUE(absl::IsUnavailable(progress.status())) << progress.status();
    EXPECT_EQ(progress.status().message().substr(0, 22),
              "f: reading at byte 512");
  }
}

TEST_F(ReadProgressTest, CountsEioAnewAfterProgress) {
  ReadProgress progress(Request(0, 1024));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(progress.Advance(-EIO), Next::kRetry);
  EXPECT_EQ(progress.Advance(512), Next::kRead);
  EXPECT_EQ(progress.Advance(-EIO), Next::kRetry);
  EXPECT_EQ(progress.retry(), 1);
}

TEST_F(ReadProgressTest, AnEndWithinAPageIsTheFiles) {
  ReadProgress progress(Request(0, 4096));
  EXPECT_EQ(progress.Advance(1000), Next::kRead);
  EXPECT_EQ(progress.Advance(488), Next::kDone);
  EXPECT_EQ(progress.status(),
            absl::DataLossError(
                "f: ends at byte 1000; bytes 0 to 4096 were asked for"));
}

TEST_F(ReadProgressTest, OtherErrorsAreFinal) {
  ReadProgress progress(Request(0, 512));
  EXPECT_EQ(progress.Advance(-EINVAL), Next::kDone);
  EXPECT_EQ(progress.status(), absl::InvalidArgumentError(
                                   "f: reading at byte 0: Invalid argument"));
}

TEST_F(ReadProgressTest, FailsAsTold) {
  ReadProgress progress(Request(512, 512));
  progress.Fail(absl::ResourceExhaustedError("no"));
  EXPECT_EQ(progress.status(),
            absl::ResourceExhaustedError("f: reading at byte 512: no"));
}

TEST_F(ReadProgressTest, ChecksRequests) {
  EXPECT_TRUE(CheckRequests({}, 0).ok());
  EXPECT_TRUE(CheckRequests({Request(0, 512), Request(512, 512)}, 2).ok());
  ReadRequest shifted = Request(0, 512);
  shifted.out = absl::MakeSpan(memory_ + 8, 512);
  for (const ReadRequest& bad :
       {Request(1, 512), Request(0, 511), Request(0, 0), shifted}) {
    const absl::Status status = CheckRequests({Request(0, 512), bad}, 2);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CheckRequests({Request(0, 512)}, 0)));
}

TEST_F(ReadProgressTest, AnyAlignmentWillDoWithoutDirectReads) {
  const auto buffered = NewMemoryDevice(std::string(100, 'x'), 1);
  const ReadRequest request{buffered.get(), 3, absl::MakeSpan(memory_ + 1, 5)};
  EXPECT_TRUE(CheckRequests({request}, 1).ok());
  ReadProgress progress(request);
  EXPECT_EQ(progress.Advance(2), Next::kRead);
  EXPECT_EQ(progress.offset(), 5u);
  EXPECT_EQ(progress.Advance(3), Next::kDone);
}

constexpr size_t kPage = 4096;

// A kernel that follows a script. What it is asked to read it reads at once.
struct FakeKernel {
  // Results of Enter and WaitForOne, one after the other; then 0. After an
  // error nothing is taken.
  std::deque<int> enter;
  std::deque<int> wait;
  // Results of attempts, where they are not what pread gives: the most bytes,
  // or an error. Then attempts succeed.
  std::deque<int> results;
  // The most entries that each Enter takes.
  size_t takes = 1000;
  bool registers = true;

  std::vector<RingRead> attempts;
  std::vector<absl::Duration> delays;
  int enters = 0;
  int waits = 0;
  uint32_t overflows = 0;
  std::set<int> registered;
};

class FakeRing final : public Ring {
 public:
  FakeRing(FakeKernel& kernel, BlockDevice& device, size_t entries)
      : kernel_(kernel), device_(device), entries_(entries) {}

  void PrepareRead(const RingRead& read) override {
    Prepare(read.tag);
    kernel_.attempts.push_back(read);
    reads_[read.tag] = read;
  }
  void PrepareTimeout(uint64_t tag, absl::Duration delay) override {
    Prepare(tag);
    kernel_.delays.push_back(delay);
    reads_.erase(tag);
  }
  size_t prepared() const override { return prepared_.size(); }
  void Withdraw(std::vector<uint64_t>& tags) override {
    tags.insert(tags.end(), prepared_.begin(), prepared_.end());
    for (const uint64_t tag : prepared_) inside_.erase(tag);
    prepared_.clear();
  }
  int Enter(size_t wait_for) override {
    ++kernel_.enters;
    const int error = Next(kernel_.enter, 0);
    if (error < 0) return error;
    for (size_t i = 0; i < kernel_.takes && !prepared_.empty(); ++i) Execute();
    EXPECT_TRUE(wait_for <= inside_.size()) << "it would wait for ever";
    return 0;
  }
  int WaitForOne() override {
    ++kernel_.waits;
    EXPECT_GT(inside_.size(), prepared_.size()) << "it would wait for ever";
    return Next(kernel_.wait, 0);
  }
  void Reap(std::vector<RingCompletion>& completions) override {
    // One at a time, so that the remaining reads are seen to be in flight.
    if (done_.empty()) return;
    completions.push_back(done_.front());
    inside_.erase(done_.front().tag);
    done_.pop_front();
  }
  uint32_t overflows() const override { return kernel_.overflows; }

  int RegisterFile(int descriptor) override { return Number(10); }
  void UnregisterFile(int number) override {
    EXPECT_EQ(kernel_.registered.erase(number), 1u);
  }
  int RegisterMemory(absl::Span<std::byte> memory) override {
    return Number(20);
  }
  void UnregisterMemory(int number) override {
    EXPECT_EQ(kernel_.registered.erase(number), 1u);
  }

 private:
  static int Next(std::deque<int>& script, int otherwise) {
    if (script.empty()) return otherwise;
    const int next = script.front();
    script.pop_front();
    return next;
  }
  int Number(int number) {
    if (!kernel_.registers) return -ENOMEM;
    while (!kernel_.registered.insert(number).second) ++number;
    return number;
  }
  void Prepare(uint64_t tag) {
    EXPECT_TRUE(inside_.insert(tag).second) << tag << " has an entry already";
    EXPECT_LE(inside_.size(), entries_);
    prepared_.push_back(tag);
  }
  void Execute() {
    const uint64_t tag = prepared_.front();
    prepared_.pop_front();
    const auto read = reads_.find(tag);
    if (read == reads_.end()) {
      done_.push_back({tag, -ETIME});
      return;
    }
    const auto& [offset, out] =
        std::pair(read->second.offset, read->second.out);
    const auto count = static_cast<int>(device_.ReadOnce(offset, out));
    done_.push_back({tag, std::min(count, Next(kernel_.results, count))});
  }

  FakeKernel& kernel_;
  BlockDevice& device_;
  const size_t entries_;
  std::deque<uint64_t> prepared_;
  std::set<uint64_t> inside_;  // Prepared, taken or not reaped.
  std::map<uint64_t, RingRead> reads_;
  std::deque<RingCompletion> done_;
};

class UringQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteTestBytes(scratch_.Path("f"), 16 * kPage);
    auto device = FileSystem::Posix().OpenBlockDevice(scratch_.Path("f"), {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    UseRing(kDepth);
  }

  /// From now on a ring for `entries` at once.
  void UseRing(size_t entries) {
    queue_ =
        NewUringQueue(std::make_unique<FakeRing>(kernel_, *device_, entries),
                      entries, kDepth, counters_);
  }

  absl::Status Submit(size_t pages) {
    std::vector<ReadRequest> requests;
    for (size_t i = 0; i < pages; ++i) {
      requests.push_back({device_.get(), i * kPage, Page(i), i});
    }
    return queue_->Submit(requests);
  }

  absl::Span<std::byte> Page(size_t number) {
    return memory_.bytes().subspan(number * kPage, kPage);
  }

  /// Reads pages to the end; each must be delivered once, and be right.
  void ExpectReads(size_t pages) {
    ASSERT_TRUE(Submit(pages).ok());
    std::set<uint64_t> tags;
    std::vector<ReadResult> results;
    while (queue_->in_flight() > 0) {
      ASSERT_TRUE(queue_->Wait(1, results).ok());
      for (const ReadResult& result : results) {
        EXPECT_TRUE(result.status.ok()) << result.status;
        EXPECT_TRUE(tags.insert(result.tag).second);
        EXPECT_TRUE(AreTestBytes(result.tag * kPage, Page(result.tag)));
      }
    }
    EXPECT_EQ(tags.size(), pages);
  }

  /// The result of one read alone.
  ReadResult ReadOne() {
    EXPECT_TRUE(Submit(1).ok());
    std::vector<ReadResult> results;
    EXPECT_TRUE(queue_->Wait(1, results).ok());
    EXPECT_EQ(results.size(), 1u);
    return results[0];
  }

  static constexpr size_t kDepth = 8;
  ScratchDirectory scratch_;
  std::unique_ptr<BlockDevice> device_;
  AlignedMemory memory_ = NewTestMemory(kDepth * kPage);
  FakeKernel kernel_;
  ReadCounters counters_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_F(UringQueueTest, EntersOnceForAllReadsOfASubmission) {
  ASSERT_TRUE(Submit(8).ok());
  EXPECT_EQ(kernel_.enters, 1);
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue_->Wait(1, results).ok());
  EXPECT_EQ(kernel_.enters, 1);  // Completions that are there need no Enter.
  EXPECT_EQ(kernel_.attempts.size(), 8u);
}

TEST_F(UringQueueTest, WhatTheKernelDoesNotTakeIsNotPreparedAgain) {
  for (const int error : {-EAGAIN, -EINTR, -EBUSY, -ENOMEM}) {
    kernel_.enter = {error};
    kernel_.attempts.clear();
    ExpectReads(3);
    EXPECT_EQ(kernel_.attempts.size(), 3u);
  }
}

TEST_F(UringQueueTest, GoesOnWhereTheKernelTakesAFewAtATime) {
  kernel_.takes = 2;
  ExpectReads(7);
  EXPECT_EQ(kernel_.attempts.size(), 7u);
}

TEST_F(UringQueueTest, AWaitThatIsInterruptedGoesOn) {
  kernel_.enter = {-EINTR, -EINTR, -EINTR};
  ExpectReads(1);
  EXPECT_EQ(counters_.Snapshot().retries, 0);
}

TEST_F(UringQueueTest, ARefusalWaitsForWhatTheKernelHas) {
  kernel_.takes = 1;
  kernel_.enter = {0, -EAGAIN, -EAGAIN};
  kernel_.wait = {-EINTR};
  ASSERT_TRUE(Submit(3).ok());
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue_->Wait(3, results).ok());
  EXPECT_EQ(results.size(), 3u);
  // Where nothing was there to wait for, it waited a little.
  EXPECT_EQ(kernel_.waits + counters_.Snapshot().retries, 2);
}

TEST_F(UringQueueTest, ReadsThatTheKernelNeverTakesFailAndTheQueueLives) {
  kernel_.enter = {-EAGAIN, -EAGAIN, -EAGAIN, -EAGAIN, -EAGAIN};
  ASSERT_TRUE(Submit(2).ok());
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue_->Wait(1, results).ok());
  ASSERT_EQ(results.size(), 2u);
  for (const ReadResult& result : results) {
    EXPECT_TRUE(absl::IsResourceExhausted(result.status)) << result.status;
    EXPECT_NE(std::string(result.status.message())
                  .find("/f: reading at byte " +
                        std::to_string(result.tag * kPage) + ": io_uring"),
              std::string::npos)
        << result.status;
  }
  EXPECT_EQ(queue_->in_flight(), 0u);
  ExpectReads(8);
}

TEST_F(UringQueueTest, OtherErrorsOfTheKernelAreToldAtOnce) {
  kernel_.enter = {-EFAULT};
  EXPECT_FALSE(Submit(1).ok());
  std::vector<ReadResult> results;
  EXPECT_EQ(queue_->in_flight(), 1u);
  kernel_.enter = {-EFAULT};
  EXPECT_FALSE(queue_->Wait(1, results).ok());
  kernel_.enter = {-EAGAIN};
  EXPECT_TRUE(queue_->Wait(1, results).ok());
  EXPECT_EQ(results.size(), 1u);
}

TEST_F(UringQueueTest, LostCompletionsAreAnError) {
  kernel_.overflows = 1;
  std::vector<ReadResult> results;
  EXPECT_TRUE(absl::IsInternal(queue_->Wait(0, results)));
}

TEST_F(UringQueueTest, AShortReadGoesOnInItsOwnSlot) {
  kernel_.results = {1300, 4096, 2000};
  ExpectReads(2);
  ASSERT_EQ(kernel_.attempts.size(), 4u);
  const uint64_t alignment = device_->alignment();
  EXPECT_EQ(kernel_.attempts[2].offset, 1300 / alignment * alignment);
  EXPECT_EQ(kernel_.attempts[2].tag, kernel_.attempts[0].tag);
  EXPECT_EQ(kernel_.attempts[2].out.data(),
            Page(0).data() + kernel_.attempts[2].offset);
}

TEST_F(UringQueueTest, EioIsTriedAgainAfterGrowingDelays) {
  kernel_.results = {-EIO, -EIO, -EIO};
  ExpectReads(1);
  EXPECT_EQ(kernel_.delays, (std::vector<absl::Duration>{
                                RetryDelay(1), RetryDelay(2), RetryDelay(3)}));
  EXPECT_EQ(counters_.Snapshot().retries, 3);
  kernel_.results = {-EAGAIN, -EINTR};
  ExpectReads(8);
}

TEST_F(UringQueueTest, TheFourthEioIsTheResultOfThatReadAlone) {
  kernel_.results = {4096, -EIO, 4096, -EIO, -EIO, -EIO};
  ASSERT_TRUE(Submit(3).ok());
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue_->Wait(3, results).ok());
  ASSERT_EQ(results.size(), 3u);
  for (const ReadResult& result : results) {
    EXPECT_EQ(absl::IsUnavailable(result.status), result.tag == 1);
    EXPECT_EQ(result.status.ok(), result.tag != 1) << result.status;
  }
  EXPECT_EQ(counters_.Snapshot().failed_reads, 1);
}

TEST_F(UringQueueTest, TheEndOfTheFileIsDataLossWhereItWasNot) {
  kernel_.results = {0};
  EXPECT_TRUE(absl::IsDataLoss(ReadOne().status));
}

TEST_F(UringQueueTest, ReadsByRegisteredNumbersUntilUnregistered) {
  const auto known = memory_.bytes().first(2 * kPage);
  const Registration registration = queue_->Register(*device_, known);
  EXPECT_TRUE(registration.file && registration.memory);
  ExpectReads(3);
  EXPECT_EQ(kernel_.attempts[0].file, 10);
  EXPECT_EQ(kernel_.attempts[0].memory, 20);
  EXPECT_EQ(kernel_.attempts[1].memory, 20);
  EXPECT_EQ(kernel_.attempts[2].memory, -1);  // Outside.
  queue_->Unregister(*device_, known);
  EXPECT_TRUE(kernel_.registered.empty());
  ExpectReads(1);
  EXPECT_EQ(kernel_.attempts[3].file, -1);
  EXPECT_EQ(kernel_.attempts[3].memory, -1);
  EXPECT_EQ(kernel_.attempts[3].descriptor, device_->descriptor());
}

TEST_F(UringQueueTest, ReadsWithoutWhatTheKernelRefusesToRegister) {
  kernel_.registers = false;
  const Registration registration = queue_->Register(*device_, memory_.bytes());
  EXPECT_FALSE(registration.file || registration.memory);
  ExpectReads(8);
  queue_->Unregister(*device_, memory_.bytes());
}

TEST_F(UringQueueTest, DestroyingItReapsEverything) {
  kernel_.takes = 1;
  kernel_.results = {-EIO, 1000, 4096};
  ASSERT_TRUE(Submit(8).ok());
  queue_.reset();
  EXPECT_EQ(counters_.Snapshot().reads, 8);
  EXPECT_EQ(counters_.Snapshot().failed_reads, 0);
}

TEST_F(UringQueueTest, InASmallRingReadsWaitForEachOther) {
  for (const size_t entries : {1, 3}) {
    UseRing(entries);
    kernel_.attempts.clear();
    EXPECT_EQ(queue_->depth(), kDepth);
    ExpectReads(kDepth);
    std::vector<uint64_t> tags;
    for (const RingRead& read : kernel_.attempts) {
      tags.push_back(read.offset / kPage);
    }
    EXPECT_EQ(tags, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    // All at once is as good as one by one.
    ASSERT_TRUE(Submit(kDepth).ok());
    std::vector<ReadResult> results;
    ASSERT_TRUE(queue_->Wait(kDepth, results).ok());
    EXPECT_EQ(results.size(), kDepth);
  }
}

TEST_F(UringQueueTest, InASmallRingNothingIsLostToFaults) {
  for (const size_t entries : {1, 3}) {
    UseRing(entries);
    kernel_.results = {1024, -EIO, kPage, -EAGAIN, 2048, -EINTR};
    kernel_.enter = {-EAGAIN, 0, -EINTR, -EBUSY};
    ExpectReads(kDepth);
    kernel_.takes = 1;
    ExpectReads(kDepth);
    kernel_.takes = 1000;
  }
  ASSERT_TRUE(Submit(kDepth).ok());
  queue_.reset();
}

TEST_F(UringQueueTest, InASmallRingReadsThatTheKernelNeverTakesFail) {
  UseRing(4);
  kernel_.enter.assign(1000, -EAGAIN);
  ASSERT_TRUE(Submit(kDepth).ok());
  std::vector<ReadResult> results;
  ASSERT_TRUE(queue_->Wait(kDepth, results).ok());
  ASSERT_EQ(results.size(), kDepth);
  for (const ReadResult& result : results) {
    EXPECT_TRUE(absl::IsResourceExhausted(result.status)) << result.status;
  }
  kernel_.enter.clear();
  ExpectReads(kDepth);
}

}  // namespace

}  // namespace hearth::io
