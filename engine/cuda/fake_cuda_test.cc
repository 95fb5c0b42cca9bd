#include "engine/cuda/testing/fake_cuda.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {
namespace {

class FakeCudaTest : public ::testing::Test {
 protected:
  FakeCudaTest() {
    EXPECT_EQ(table_.stream_create(0, &stream_), 0);
    EXPECT_EQ(table_.event_create(0, &event_), 0);
  }
  ~FakeCudaTest() override {
    EXPECT_EQ(table_.event_destroy(event_), 0);
    EXPECT_EQ(table_.stream_destroy(stream_), 0);
  }

  int Wait() {
    const int error = table_.event_record(event_, stream_);
    return error != 0 ? error : table_.event_synchronize(event_);
  }

  Memory Allocate(Memory::Kind kind, uint64_t bytes) {
    return *Memory::Allocate(fake_.device(), kind, bytes);
  }

  template <typename T>
  Registration Register(const std::vector<T>& values) {
    return *Registration::Register(
        fake_.device(),
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(T)));
  }

  FakeCuda fake_;
  const HearthCudaTable& table_ = FakeCuda::table();
  HearthCudaStream* stream_ = nullptr;
  HearthCudaEvent* event_ = nullptr;
};

TEST_F(FakeCudaTest, NothingIsDoneBeforeSomebodyWaits) {
  std::string from = "early";
  std::string to = ".....";
  EXPECT_EQ(table_.copy(to.data(), from.data(), 5, stream_), 0);
  EXPECT_EQ(to, ".....");
  // Memory that changes while work is queued shows in the result.
  from = "later";
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(to, "later");
}

TEST_F(FakeCudaTest, TellsItsFreeMemory) {
  const auto before = MemoryOf(fake_.device());
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->total_bytes, FakeCuda::kTotalBytes);
  const Memory memory = Allocate(Memory::Kind::kDevice, 1000);
  const Memory pinned = Allocate(Memory::Kind::kPinned, 500);
  EXPECT_EQ(before->free_bytes - MemoryOf(fake_.device())->free_bytes, 1000u);
  fake_.FailCall(1);
  EXPECT_EQ(MemoryOf(fake_.device()).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(FakeCudaTest, AnEventIsTheWorkBeforeIt) {
  const std::string from = "ab";
  std::string to = "..";
  EXPECT_EQ(table_.copy(to.data(), from.data(), 1, stream_), 0);
  EXPECT_EQ(table_.event_record(event_, stream_), 0);
  EXPECT_EQ(table_.copy(&to[1], &from[1], 1, stream_), 0);
  EXPECT_EQ(table_.event_synchronize(event_), 0);
  EXPECT_EQ(to, "a.");
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(to, "ab");
}

TEST_F(FakeCudaTest, AStreamWaitsForAnother) {
  HearthCudaStream* second = nullptr;
  ASSERT_EQ(table_.stream_create(0, &second), 0);
  const std::string from = "text";
  std::string middle = "....";
  std::string to = "....";
  EXPECT_EQ(table_.copy(middle.data(), from.data(), 4, stream_), 0);
  EXPECT_EQ(table_.event_record(event_, stream_), 0);
  EXPECT_EQ(table_.stream_wait_event(second, event_), 0);
  EXPECT_EQ(table_.copy(to.data(), middle.data(), 4, second), 0);
  EXPECT_EQ(table_.event_record(event_, second), 0);
  EXPECT_EQ(table_.event_synchronize(event_), 0);
  EXPECT_EQ(to, "text");
  EXPECT_EQ(table_.stream_destroy(second), 0);
}

TEST_F(FakeCudaTest, ACopyEndsWhereDeviceMemoryDoes) {
  const Memory memory = Allocate(Memory::Kind::kDevice, 4);
  const std::string from = "12345";
  EXPECT_EQ(table_.copy(memory.data(), from.data(), 5, stream_), 0);
  EXPECT_EQ(Wait(), FakeCuda::kIllegalAddress);
}

TEST_F(FakeCudaTest, GathersWhatAGpuCanReach) {
  const Memory memory = Allocate(Memory::Kind::kPinned, 64);
  auto* const rows = reinterpret_cast<float*>(memory.data());
  auto* const indices = reinterpret_cast<int64_t*>(memory.data() + 16);
  auto* const out = reinterpret_cast<float*>(memory.data() + 32);
  rows[0] = 1;
  rows[1] = 2;
  indices[0] = 1;
  indices[1] = 0;
  HearthCudaGather gather = {.source = rows,
                             .element = HEARTH_CUDA_FLOAT32,
                             .dim = 1,
                             .indices = indices,
                             .count = 2,
                             .out = out};
  EXPECT_EQ(table_.gather_rows(&gather, stream_), 0);
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[1], 1);
  gather.count = -1;
  EXPECT_NE(table_.gather_rows(&gather, stream_), 0);
}

TEST_F(FakeCudaTest, AKernelTouchesNoMemoryButDevicesAndPinned) {
  const std::vector<float> rows = {1, 2};
  const std::vector<int64_t> indices = {0};
  float out = 0;
  const HearthCudaGather gather = {.source = rows.data(),
                                   .element = HEARTH_CUDA_FLOAT32,
                                   .dim = 1,
                                   .indices = indices.data(),
                                   .count = 1,
                                   .out = &out};
  EXPECT_EQ(table_.gather_rows(&gather, stream_), 0);
  EXPECT_EQ(Wait(), FakeCuda::kIllegalAddress);
  // From then on, the stream is of no use.
  EXPECT_EQ(Wait(), FakeCuda::kIllegalAddress);
}

TEST_F(FakeCudaTest, AKernelReachesWhatIsRegisteredAsLongAsItIs) {
  const std::vector<float> rows = {1, 2};
  const std::vector<int64_t> indices = {1};
  const Memory out = Allocate(Memory::Kind::kPinned, sizeof(float));
  const HearthCudaGather gather = {.source = rows.data(),
                                   .element = HEARTH_CUDA_FLOAT32,
                                   .dim = 1,
                                   .indices = indices.data(),
                                   .count = 1,
                                   .out = reinterpret_cast<float*>(out.data())};
  {
    const Registration of_rows = Register(rows);
    Registration moved = Register(indices);
    const Registration of_indices = std::move(moved);
    EXPECT_EQ(fake_.registered_bytes(), 16);
    EXPECT_EQ(table_.gather_rows(&gather, stream_), 0);
    EXPECT_EQ(Wait(), 0);
    EXPECT_EQ(*gather.out, 2);
  }
  EXPECT_EQ(fake_.registered_bytes(), 0);
  EXPECT_EQ(table_.gather_rows(&gather, stream_), 0);
  EXPECT_EQ(Wait(), FakeCuda::kIllegalAddress);
}

TEST_F(FakeCudaTest, RegistersNothingTwice) {
  const std::vector<float> rows = {1, 2, 3, 4};
  const auto bytes =
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(rows.data()), 16);
  const Registration middle =
      *Registration::Register(fake_.device(), bytes.subspan(4, 4));
  for (const auto overlap : {bytes, bytes.subspan(4, 4), bytes.subspan(6, 1),
                             bytes.first(5), bytes.subspan(7)}) {
    EXPECT_EQ(Registration::Register(fake_.device(), overlap).status().code(),
              absl::StatusCode::kInternal);
  }
  const Registration before =
      *Registration::Register(fake_.device(), bytes.first(4));
  const Registration after =
      *Registration::Register(fake_.device(), bytes.subspan(8));
  EXPECT_TRUE(Registration::Register(fake_.device(), {}).ok());
  EXPECT_EQ(fake_.registered_bytes(), 16);
  int64_t number = 0;
  EXPECT_NE(table_.host_unregister(0, &number), 0);
  fake_.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  EXPECT_EQ(Registration::Register(fake_.device(), bytes).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(FakeCudaTest, ReleasesOnlyWhatWasAllocated) {
  int64_t number = 0;
  EXPECT_NE(table_.release(0, &number), 0);
  EXPECT_NE(table_.release_pinned(0, &number), 0);
  const Memory memory = Allocate(Memory::Kind::kDevice, 4);
  EXPECT_NE(table_.release_pinned(0, memory.data()), 0);
  EXPECT_EQ(fake_.device_bytes(), 4);
  EXPECT_EQ(fake_.pinned_bytes(), 0);
}

TEST_F(FakeCudaTest, HasOneDevice) {
  int count = 0;
  EXPECT_EQ(table_.device_count(&count), 0);
  EXPECT_EQ(count, 1);
  char name[16] = "";
  EXPECT_EQ(table_.device_name(0, name, sizeof(name)), 0);
  EXPECT_STREQ(name, "a fake");
  EXPECT_NE(table_.device_name(1, name, sizeof(name)), 0);
  HearthCudaStream* stream = nullptr;
  EXPECT_NE(table_.stream_create(1, &stream), 0);
}

}  // namespace
}  // namespace hearth::cuda
