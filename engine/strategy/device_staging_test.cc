#include "engine/strategy/device_staging.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/fake_cuda.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/store/dtype.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {
namespace {

class DeviceStagingTest : public ::testing::Test {
 protected:
  // Rows of one float32 each; a negative one was not written.
  std::vector<float> Scatter(const std::vector<DeviceStaging::Part>& parts,
                             size_t rows) {
    const absl::Status copies = staging_.QueueCopies(*stream_);
    EXPECT_TRUE(copies.ok()) << copies;
    std::vector<float> out(rows, -1);
    auto on_device = *cuda::Memory::Allocate(
        fake_.device(), cuda::Memory::Kind::kDevice, rows * sizeof(float));
    absl::Status status =
        stream_->Copy(on_device.data(), out.data(), rows * sizeof(float));
    HearthCudaScatter scatter = {};
    scatter.element = HEARTH_CUDA_FLOAT32;
    scatter.dim = 1;
    scatter.out = reinterpret_cast<float*>(on_device.data());
    for (size_t i = 0; i < parts.size(); ++i) {
      scatter.parts[i] = staging_.At(parts[i]);
    }
    status.Update(stream_->Scatter(scatter));
    status.Update(
        stream_->Copy(out.data(), on_device.data(), rows * sizeof(float)));
    status.Update(stream_->Wait());
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  static absl::Span<const std::byte> Bytes(const std::vector<float>& rows) {
    return {reinterpret_cast<const std::byte*>(rows.data()),
            rows.size() * sizeof(float)};
  }

  cuda::FakeCuda fake_;
  const std::unique_ptr<cuda::Stream> stream_ =
      *cuda::Stream::Create(fake_.device());
  DeviceStaging staging_{fake_.device()};
};

TEST_F(DeviceStagingTest, PartsAreRowsInPlaceAndCopiedOnes) {
  const std::vector<float> rows = {10, 11, 12, 13};
  auto pinned = *cuda::Memory::Allocate(
      fake_.device(), cuda::Memory::Kind::kPinned, rows.size() * sizeof(float));
  std::copy(rows.begin(), rows.end(), reinterpret_cast<float*>(pinned.data()));
  const std::vector<int64_t> slots = {3, 0};
  const std::vector<int32_t> positions = {1, 2};
  const std::vector<float> read = {20, 21};
  const std::vector<int32_t> others = {4, 0};
  const std::vector<int64_t> last = {1};
  const std::vector<int32_t> another = {5};
  staging_.Begin();
  const auto copied = staging_.AddCopied(Bytes(read), others);
  const std::vector<DeviceStaging::Part> parts = {
      staging_.AddReached(pinned.data(), slots, positions), copied,
      staging_.AddReached(nullptr, {}, {}),
      staging_.AddRowsOf(copied, last, another)};
  EXPECT_EQ(Scatter(parts, 6), (std::vector<float>{21, 13, 10, -1, 20, 21}));
}

TEST_F(DeviceStagingTest, TheAreaIsUsedAgainAndGrows) {
  std::vector<float> read;
  std::vector<int32_t> positions;
  for (const int32_t rows : {1, 200, 3}) {
    read.clear();
    positions.clear();
    for (int32_t i = 0; i < rows; ++i) {
      read.push_back(static_cast<float>(i * rows));
      positions.push_back(i);
    }
    staging_.Begin();
    const auto part = staging_.AddCopied(Bytes(read), positions);
    EXPECT_EQ(Scatter({part}, read.size()), read);
  }
  // Blocks begin at multiples of 256 bytes.
  EXPECT_EQ(fake_.device_bytes(), 2 * 1024);
  staging_.Clear();
  EXPECT_EQ(fake_.device_bytes(), 0);
}

TEST_F(DeviceStagingTest, ADeviceWithoutMemoryIsTold) {
  const std::vector<float> read = {1};
  const std::vector<int32_t> positions = {0};
  staging_.Begin();
  staging_.AddCopied(Bytes(read), positions);
  fake_.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  const absl::Status status = staging_.QueueCopies(*stream_);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(CudaElementTest, FeaturesHaveTheKernelsTypes) {
  EXPECT_EQ(CudaElement(store::DType::kFloat32), HEARTH_CUDA_FLOAT32);
  EXPECT_EQ(CudaElement(store::DType::kFloat16), HEARTH_CUDA_FLOAT16);
  EXPECT_EQ(CudaElement(store::DType::kBFloat16), HEARTH_CUDA_BFLOAT16);
}

}  // namespace
}  // namespace hearth::strategy
