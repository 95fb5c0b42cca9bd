#include "engine/io/read_progress.h"

#include <cerrno>
#include <memory>
#include <string>

#include "engine/io/memory_device.h"
#include "engine/io/transfer.h"
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

}  // namespace
}  // namespace hearth::io
