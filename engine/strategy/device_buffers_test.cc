#include "engine/strategy/device_buffers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/store/array_type.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

namespace {

using cuda::FakeCuda;
using LeasePtr = std::unique_ptr<DeviceBufferPool::Lease>;
using Rows = std::vector<float>;

constexpr size_t kMostRows = 64;

// A model's stream, with memory for rows. The fake GPU does no work before
// somebody waits.
class Reader {
 public:
  explicit Reader(const FakeCuda& fake) {
    EXPECT_EQ(FakeCuda::table().stream_create(0, &native_), 0);
    stream_ = *cuda::Stream::Wrap(fake.device(), native_);
    memory_ = *cuda::Memory::Allocate(
        fake.device(), cuda::Memory::Kind::kDevice, kMostRows * sizeof(float));
  }
  ~Reader() {
    stream_.reset();
    (void)FakeCuda::table().stream_destroy(native_);
  }

  absl::Status Queue(const train::DeviceRows& rows) {
    return rows.QueueCopy(native_, reinterpret_cast<float*>(memory_.data()));
  }

  // Waits, and returns the first `count` floats that were copied.
  absl::StatusOr<Rows> Take(size_t count) {
    Rows rows(count);
    absl::Status status =
        stream_->Copy(rows.data(), memory_.data(), count * sizeof(float));
    status.Update(stream_->Wait());
    if (!status.ok()) return status;
    return rows;
  }

 private:
  HearthCudaStream* native_ = nullptr;
  cuda::Memory memory_;
  std::unique_ptr<cuda::Stream> stream_;
};

absl::StatusOr<LeasePtr> Fill(DeviceBufferPool& pool, cuda::Stream& writer,
                              const Rows& rows) {
  const uint64_t bytes = rows.size() * sizeof(float);
  HEARTH_ASSIGN_OR_RETURN(LeasePtr buffer, pool.Take(bytes, writer));
  absl::Status status = writer.Copy(buffer->data(), rows.data(), bytes);
  if (status.ok()) status = buffer->Fill(writer);
  if (!status.ok()) {
    writer.Wait().IgnoreError();
    return status;
  }
  return buffer;
}

class DeviceBufferPoolTest : public ::testing::Test {
 protected:
  LeasePtr Filled(const Rows& rows) {
    absl::StatusOr<LeasePtr> buffer = Fill(pool_, *writer_, rows);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }

  const Rows one_ = {1, 2, 3};
  const Rows two_ = {4, 5, 6};
  const Rows many_ = Rows(50, 7.0F);

  FakeCuda fake_;
  Reader reader_{fake_};
  Reader other_{fake_};
  const std::unique_ptr<cuda::Stream> writer_ =
      *cuda::Stream::Create(fake_.device());
  DeviceBufferPool pool_{fake_.device()};
};

TEST_F(DeviceBufferPoolTest, ReadersWaitForTheWriter) {
  const LeasePtr buffer = Filled(one_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  ASSERT_EQ(other_.Queue(*buffer), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(3), one_);
  EXPECT_EQ(*other_.Take(3), one_);
}

TEST_F(DeviceBufferPoolTest, ABufferIsFilledAgainAfterItsCopies) {
  const int64_t before = fake_.device_bytes();
  LeasePtr buffer = Filled(one_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  ASSERT_EQ(other_.Queue(*buffer), absl::OkStatus());
  buffer.reset();
  buffer = Filled(two_);
  EXPECT_EQ(fake_.device_bytes() - before, 3 * sizeof(float));
  // The copy waits until the buffer is filled.
  buffer.reset();
  EXPECT_EQ(*reader_.Take(3), one_);
  EXPECT_EQ(*other_.Take(3), one_);
  buffer = Filled(two_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(3), two_);
}

TEST_F(DeviceBufferPoolTest, TheEndOfALeaseWaitsForItsFilling) {
  Rows rows = one_;
  LeasePtr buffer = Filled(rows);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  buffer.reset();
  rows = two_;
  EXPECT_EQ(*reader_.Take(3), one_);
}

TEST_F(DeviceBufferPoolTest, ThereAreAsManyBuffersAsWereLentAtOnce) {
  const int64_t before = fake_.device_bytes();
  const auto buffers = [&] {
    return (fake_.device_bytes() - before) /
           static_cast<int64_t>(3 * sizeof(float));
  };
  LeasePtr first = Filled(one_);
  LeasePtr second = Filled(two_);
  EXPECT_EQ(buffers(), 2);
  ASSERT_EQ(reader_.Queue(*first), absl::OkStatus());
  ASSERT_EQ(other_.Queue(*second), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(3), one_);
  EXPECT_EQ(*other_.Take(3), two_);
  std::byte* const where = first->data();
  first.reset();
  second.reset();
  EXPECT_EQ(Filled(one_)->data(), where);
  EXPECT_EQ(buffers(), 2);
  pool_.Clear();
  EXPECT_EQ(buffers(), 0);
}

TEST_F(DeviceBufferPoolTest, ABufferGrowsAfterItsCopies) {
  LeasePtr buffer = Filled(one_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  buffer.reset();
  buffer = Filled(many_);
  EXPECT_EQ(*reader_.Take(3), one_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(many_.size()), many_);
  // Readers get no bytes behind the batch's rows.
  buffer.reset();
  buffer = Filled(two_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  EXPECT_EQ((*reader_.Take(4))[3], many_[3]);
}

TEST_F(DeviceBufferPoolTest, BuffersGoAfterTheirCopies) {
  LeasePtr buffer = Filled(one_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  buffer.reset();
  pool_.Clear();
  EXPECT_EQ(*reader_.Take(3), one_);
}

TEST_F(DeviceBufferPoolTest, NoRowsAreNoWork) {
  const LeasePtr buffer = Filled({});
  fake_.FailCall(1);
  EXPECT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  fake_.FailCall(0);
}

TEST_F(DeviceBufferPoolTest, AFillingThatFailedIsToldToTheNext) {
  LeasePtr buffer = Filled(one_);
  fake_.FailWork(1);
  buffer.reset();
  EXPECT_TRUE(absl::IsInternal(pool_.Take(1, *writer_).status()));
}

TEST_F(DeviceBufferPoolTest, ReadersHearOfAFillingThatFailed) {
  const LeasePtr buffer = Filled(one_);
  ASSERT_EQ(reader_.Queue(*buffer), absl::OkStatus());
  fake_.FailWork(2);
  EXPECT_TRUE(absl::IsInternal(reader_.Take(3).status()));
}

// Two batches through one buffer, and a larger one, each released before its
// copy is done.
absl::Status UseBuffers(const FakeCuda& fake, Reader& reader) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Stream> writer,
                          cuda::Stream::Create(fake.device()));
  DeviceBufferPool pool(fake.device());
  for (const size_t count : {3, 3, 9}) {
    const Rows rows(count, static_cast<float>(count));
    HEARTH_ASSIGN_OR_RETURN(LeasePtr buffer, Fill(pool, *writer, rows));
    HEARTH_RETURN_IF_ERROR(reader.Queue(*buffer));
    buffer.reset();
    const Rows next(count);
    HEARTH_ASSIGN_OR_RETURN(buffer, Fill(pool, *writer, next));
    buffer.reset();
    HEARTH_ASSIGN_OR_RETURN(const Rows taken, reader.Take(count));
    EXPECT_EQ(taken, rows);
  }
  return pool.Take(1, *writer).status();
}

TEST(DeviceBufferPoolFaultTest, EveryCallMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    FakeCuda fake;
    Reader reader(fake);
    fake.FailCall(nth);
    const absl::Status status = UseBuffers(fake, reader);
    failed = fake.failed();
    fake.FailCall(0);
    // The last calls come from destructors of streams.
    if (failed && status.ok()) continue;
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 40);
}

TEST(DeviceBufferPoolFaultTest, EveryWorkMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    FakeCuda fake;
    Reader reader(fake);
    fake.FailWork(nth);
    const absl::Status status = UseBuffers(fake, reader);
    failed = fake.failed();
    fake.FailWork(0);
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 15);
}

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
