#include "engine/io/uring.h"

#include <cerrno>
#include <memory>
#include <vector>

#include "engine/io/file_system.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

constexpr size_t kPage = 4096;

class KernelRingTest : public testing::Test {
 protected:
  void SetUp() override {
    auto ring = NewKernelRing(4);
    if (absl::IsUnimplemented(ring.status()) ||
        absl::IsPermissionDenied(ring.status())) {
      GTEST_SKIP() << "no io_uring here: " << ring.status();
    }
    ASSERT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
    WriteTestBytes(scratch_.Path("f"), 16 * kPage);
    auto device = FileSystem::Posix().OpenBlockDevice(scratch_.Path("f"), {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  RingRead PageRead(uint64_t tag) {
    return {.tag = tag,
            .descriptor = device_->descriptor(),
            .offset = tag * kPage,
            .out = memory_.bytes().subspan(tag * kPage, kPage)};
  }

  /// Enters until `count` completions are there.
  std::vector<RingCompletion> Complete(size_t count) {
    std::vector<RingCompletion> completions;
    while (completions.size() < count) {
      const int error = ring_->Enter(count - completions.size());
      EXPECT_TRUE(error == 0 || error == -EINTR) << error;
      ring_->Reap(completions);
    }
    return completions;
  }

  std::unique_ptr<Ring> ring_;
  ScratchDirectory scratch_;
  std::unique_ptr<BlockDevice> device_;
  AlignedMemory memory_ = NewTestMemory(16 * kPage);
};

TEST_F(KernelRingTest, ReadsManyTimesAround) {
  for (int round = 0; round < 10; ++round) {
    for (uint64_t tag = 0; tag < 4; ++tag) ring_->PrepareRead(PageRead(tag));
    EXPECT_EQ(ring_->prepared(), 4u);
    for (const RingCompletion& completion : Complete(4)) {
      EXPECT_EQ(completion.result, static_cast<int>(kPage));
      EXPECT_TRUE(
          AreTestBytes(completion.tag * kPage, PageRead(completion.tag).out));
    }
    EXPECT_EQ(ring_->prepared(), 0u);
  }
  EXPECT_EQ(ring_->overflows(), 0u);
}

TEST_F(KernelRingTest, WithdrawnEntriesAreNeverRead) {
  for (int round = 0; round < 5; ++round) {
    ring_->PrepareRead(PageRead(0));
    Complete(1);
    std::vector<uint64_t> tags;
    for (uint64_t tag = 1; tag < 4; ++tag) ring_->PrepareRead(PageRead(tag));
    ring_->Withdraw(tags);
    EXPECT_EQ(tags, (std::vector<uint64_t>{1, 2, 3}));
    EXPECT_EQ(ring_->prepared(), 0u);
    ring_->PrepareRead(PageRead(3));
    const std::vector<RingCompletion> completions = Complete(1);
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].tag, 3u);
  }
  EXPECT_EQ(PageRead(1).out[0], std::byte{0xee});
}

TEST_F(KernelRingTest, TimeoutsEnd) {
  ring_->PrepareTimeout(2, absl::Milliseconds(1));
  ring_->PrepareTimeout(3, absl::Microseconds(10));
  for (const RingCompletion& completion : Complete(2)) {
    EXPECT_EQ(completion.result, -ETIME);
  }
}

TEST_F(KernelRingTest, WaitsForOneWithoutHandingOver) {
  ring_->PrepareRead(PageRead(1));
  ASSERT_EQ(ring_->Enter(0), 0);
  ring_->PrepareRead(PageRead(2));
  ASSERT_EQ(ring_->WaitForOne(), 0);
  EXPECT_EQ(ring_->prepared(), 1u);
  std::vector<RingCompletion> completions;
  ring_->Reap(completions);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].tag, 1u);
  Complete(1);
}

TEST_F(KernelRingTest, ReadsByNumbersThatItRegistered) {
  for (int round = 0; round < 40; ++round) {
    const int file = ring_->RegisterFile(device_->descriptor());
    const int memory = ring_->RegisterMemory(memory_.bytes());
    if (file < 0 || memory < 0) GTEST_SKIP() << "not before Linux 5.19";
    RingRead read = PageRead(round % 16);
    read.file = file;
    read.memory = memory;
    ring_->PrepareRead(read);
    EXPECT_EQ(Complete(1)[0].result, static_cast<int>(kPage));
    EXPECT_TRUE(AreTestBytes(read.offset, read.out));
    ring_->UnregisterFile(file);
    ring_->UnregisterMemory(memory);
  }
}

TEST_F(KernelRingTest, RegistersNoMoreThanItHasRoomFor) {
  int numbers = 0;
  while (ring_->RegisterFile(device_->descriptor()) >= 0) ++numbers;
  EXPECT_LE(numbers, 1000);
  EXPECT_LT(ring_->RegisterMemory({memory_.bytes().data(), size_t{2} << 30}),
            0);
}

TEST_F(KernelRingTest, ErrorsAreResultsOfTheirEntries) {
  RingRead bad = PageRead(0);
  bad.descriptor = -1;
  ring_->PrepareRead(bad);
  ring_->PrepareRead(PageRead(1));
  int failed = 0;
  for (const RingCompletion& completion : Complete(2)) {
    const int expected = completion.tag == 0 ? -EBADF : int{kPage};
    EXPECT_EQ(completion.result, expected);
    failed += completion.result < 0 ? 1 : 0;
  }
  EXPECT_EQ(failed, 1);
}

}  // namespace
}  // namespace hearth::io
