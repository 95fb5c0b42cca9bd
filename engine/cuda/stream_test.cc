#include "engine/cuda/stream.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/cuda/device.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MemoryTest, IsGivenBack) {
  const FakeCuda fake;
  {
    Memory memory =
        *Memory::Allocate(fake.device(), Memory::Kind::kDevice, 100);
    EXPECT_EQ(memory.size(), 100u);
    EXPECT_EQ(fake.device_bytes(), 100);
    Memory pinned = *Memory::Allocate(fake.device(), Memory::Kind::kPinned, 7);
    EXPECT_EQ(fake.pinned_bytes(), 7);
    std::memset(pinned.data(), 1, pinned.size());
    const Memory moved = std::move(memory);
    EXPECT_EQ(memory.size(), 0u);
    EXPECT_EQ(moved.size(), 100u);
    pinned = {};
    EXPECT_EQ(fake.device_bytes(), 100);
  }
  EXPECT_EQ(fake.device_bytes(), 0);
  EXPECT_EQ(fake.pinned_bytes(), 0);
}

TEST(MemoryTest, OfNoBytesAsksNobody) {
  FakeCuda fake;
  fake.FailCall(1);
  const auto memory = Memory::Allocate(fake.device(), Memory::Kind::kDevice, 0);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->data(), nullptr);
}

TEST(MemoryTest, ThatIsNotThereIsNamed) {
  FakeCuda fake;
  fake.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  const absl::Status status =
      Memory::Allocate(fake.device(), Memory::Kind::kPinned, 123).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("allocating 123 bytes of pinned host memory"));
  fake.FailCall(1);
  EXPECT_TRUE(absl::IsInternal(
      Memory::Allocate(fake.device(), Memory::Kind::kDevice, 1).status()));
}

class StreamTest : public ::testing::TestWithParam<FakeCuda::Work> {
 protected:
  FakeCuda fake_{GetParam()};
};

TEST_P(StreamTest, CopiesThereAndBack) {
  const auto stream = *Stream::Create(fake_.device());
  const Memory memory =
      *Memory::Allocate(fake_.device(), Memory::Kind::kDevice, 4);
  const std::string text = "text";
  std::string back = "....";
  EXPECT_TRUE(stream->Copy(memory.data(), text.data(), 4).ok());
  EXPECT_TRUE(stream->Copy(back.data(), memory.data(), 4).ok());
  EXPECT_TRUE(stream->Copy(nullptr, nullptr, 0).ok());
  EXPECT_TRUE(stream->Wait().ok());
  EXPECT_EQ(back, "text");
}

TEST_P(StreamTest, ScattersFromPinnedToDevice) {
  const auto stream = *Stream::Create(fake_.device());
  const Memory pinned =
      *Memory::Allocate(fake_.device(), Memory::Kind::kPinned, 64);
  const Memory device =
      *Memory::Allocate(fake_.device(), Memory::Kind::kDevice, 16);
  auto* const rows = reinterpret_cast<float*>(pinned.data());
  auto* const positions = reinterpret_cast<int32_t*>(pinned.data() + 32);
  for (int i = 0; i < 4; ++i) {
    rows[i] = static_cast<float>(i);
    positions[i] = 3 - i;
  }
  HearthCudaScatter scatter = {};
  scatter.dim = 1;
  scatter.parts[1] = {
      .rows = rows, .slots = nullptr, .positions = positions, .count = 4};
  scatter.out = reinterpret_cast<float*>(device.data());
  EXPECT_TRUE(stream->Scatter(scatter).ok());
  std::vector<float> out(4);
  EXPECT_TRUE(stream->Copy(out.data(), device.data(), 16).ok());
  EXPECT_TRUE(stream->Wait().ok());
  EXPECT_THAT(out, ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(fake_.scatters(), 1);
}

TEST_P(StreamTest, StreamsWaitForEvents) {
  const auto event = *Event::Create(fake_.device());
  // Not recorded yet.
  EXPECT_TRUE(event->Wait().ok());
  const auto first = *Stream::Create(fake_.device());
  const auto second = *Stream::Create(fake_.device());
  EXPECT_TRUE(second->WaitFor(*event).ok());
  const std::string text = "text";
  std::string copy = "....";
  std::string copy_of_copy = "....";
  EXPECT_TRUE(first->Copy(copy.data(), text.data(), 4).ok());
  EXPECT_TRUE(first->Record(*event).ok());
  EXPECT_TRUE(second->WaitFor(*event).ok());
  EXPECT_TRUE(second->Copy(copy_of_copy.data(), copy.data(), 4).ok());
  EXPECT_TRUE(second->Wait().ok());
  EXPECT_EQ(copy_of_copy, text);
}

TEST_P(StreamTest, TheHostWaitsForEvents) {
  const auto event = *Event::Create(fake_.device());
  const auto stream = *Stream::Create(fake_.device());
  const std::string text = "text";
  std::string before = "....";
  std::string after = "....";
  EXPECT_TRUE(stream->Copy(before.data(), text.data(), 4).ok());
  EXPECT_TRUE(stream->Record(*event).ok());
  EXPECT_TRUE(stream->Copy(after.data(), text.data(), 4).ok());
  EXPECT_TRUE(event->Wait().ok());
  EXPECT_EQ(before, text);
  EXPECT_EQ(after, GetParam() == FakeCuda::Work::kAtOnce ? text : "....");
  EXPECT_TRUE(stream->Wait().ok());
  fake_.FailWork(1);
  EXPECT_TRUE(stream->Copy(after.data(), text.data(), 4).ok());
  EXPECT_TRUE(stream->Record(*event).ok());
  EXPECT_TRUE(absl::IsInternal(event->Wait()));
}

TEST_P(StreamTest, ItsEndWaits) {
  const std::string from = "text";
  std::string to = "....";
  {
    const auto stream = *Stream::Create(fake_.device());
    EXPECT_TRUE(stream->Copy(to.data(), from.data(), 4).ok());
  }
  EXPECT_EQ(to, from);
}

TEST_P(StreamTest, EveryCallMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    fake_.FailCall(nth);
    const absl::Status status = [&] {
      const auto stream = Stream::Create(fake_.device());
      if (!stream.ok()) return stream.status();
      char from = 1;
      char to = 0;
      absl::Status copied = (*stream)->Copy(&to, &from, 1);
      copied.Update((*stream)->Wait());
      return copied;
    }();
    failed = fake_.failed();
    // The destructor makes the last two calls.
    EXPECT_EQ(absl::IsInternal(status), failed && nth <= 5) << status;
  }
  EXPECT_EQ(nth, 9);
}

TEST_P(StreamTest, WhoWaitsHearsOfWorkThatFailed) {
  const auto stream = *Stream::Create(fake_.device());
  fake_.FailWork(1);
  char from = 1;
  char to = 0;
  EXPECT_TRUE(stream->Copy(&to, &from, 1).ok());
  const absl::Status status = stream->Wait();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("CUDA device 0: waiting for a stream: unspecified"));
}

INSTANTIATE_TEST_SUITE_P(Work, StreamTest,
                         ::testing::Values(FakeCuda::Work::kAtOnce,
                                           FakeCuda::Work::kWhenWaitedFor),
                         [](const auto& info) {
                           return info.param == FakeCuda::Work::kAtOnce
                                      ? "AtOnce"
                                      : "WhenWaitedFor";
                         });

}  // namespace
}  // namespace hearth::cuda
