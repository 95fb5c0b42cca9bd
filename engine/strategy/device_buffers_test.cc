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
using LeasePtr = std::unique_ptr<DeviceRooms::Lease>;
using Rows = std::vector<float>;

constexpr size_t kMostRows = 64;

// A stream that something else made, with memory for rows. Nothing is done
// before somebody waits.
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

  // Waits: the first `count` rows that were copied.
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

absl::StatusOr<LeasePtr> Fill(DeviceRooms& rooms, cuda::Stream& writer,
                              const Rows& rows) {
  const uint64_t bytes = rows.size() * sizeof(float);
  HEARTH_ASSIGN_OR_RETURN(LeasePtr room, rooms.Take(bytes, writer));
  absl::Status status = writer.Copy(room->data(), rows.data(), bytes);
  if (status.ok()) status = room->Fill(writer);
  if (!status.ok()) {
    writer.Wait().IgnoreError();
    return status;
  }
  return room;
}

class DeviceRoomsTest : public ::testing::Test {
 protected:
  LeasePtr Filled(const Rows& rows) {
    absl::StatusOr<LeasePtr> room = Fill(rooms_, *writer_, rows);
    EXPECT_TRUE(room.ok()) << room.status();
    return *std::move(room);
  }

  const Rows one_ = {1, 2, 3};
  const Rows two_ = {4, 5, 6};
  const Rows many_ = Rows(50, 7.0F);

  FakeCuda fake_;
  Reader reader_{fake_};
  Reader other_{fake_};
  const std::unique_ptr<cuda::Stream> writer_ =
      *cuda::Stream::Create(fake_.device());
  DeviceRooms rooms_{fake_.device()};
};

TEST_F(DeviceRoomsTest, ReadersWaitForTheWriter) {
  const LeasePtr room = Filled(one_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  ASSERT_EQ(other_.Queue(*room), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(3), one_);
  EXPECT_EQ(*other_.Take(3), one_);
}

TEST_F(DeviceRoomsTest, ARoomIsFilledAnewAfterItsCopies) {
  const int64_t before = fake_.device_bytes();
  LeasePtr room = Filled(one_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  ASSERT_EQ(other_.Queue(*room), absl::OkStatus());
  room.reset();
  room = Filled(two_);
  EXPECT_EQ(fake_.device_bytes() - before, 3 * sizeof(float));
  // Until it is filled.
  room.reset();
  EXPECT_EQ(*reader_.Take(3), one_);
  EXPECT_EQ(*other_.Take(3), one_);
  room = Filled(two_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(3), two_);
}

TEST_F(DeviceRoomsTest, TheEndOfALeaseWaitsForItsFilling) {
  Rows rows = one_;
  LeasePtr room = Filled(rows);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  room.reset();
  rows = two_;
  EXPECT_EQ(*reader_.Take(3), one_);
}

TEST_F(DeviceRoomsTest, ThereAreAsManyRoomsAsWereLentAtOnce) {
  const int64_t before = fake_.device_bytes();
  const auto rooms = [&] {
    return (fake_.device_bytes() - before) /
           static_cast<int64_t>(3 * sizeof(float));
  };
  LeasePtr first = Filled(one_);
  LeasePtr second = Filled(two_);
  EXPECT_EQ(rooms(), 2);
  ASSERT_EQ(reader_.Queue(*first), absl::OkStatus());
  ASSERT_EQ(other_.Queue(*second), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(3), one_);
  EXPECT_EQ(*other_.Take(3), two_);
  std::byte* const where = first->data();
  first.reset();
  second.reset();
  EXPECT_EQ(Filled(one_)->data(), where);
  EXPECT_EQ(rooms(), 2);
  rooms_.Clear();
  EXPECT_EQ(rooms(), 0);
}

TEST_F(DeviceRoomsTest, ARoomGrowsAfterItsCopies) {
  LeasePtr room = Filled(one_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  room.reset();
  room = Filled(many_);
  EXPECT_EQ(*reader_.Take(3), one_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  EXPECT_EQ(*reader_.Take(many_.size()), many_);
  // Nobody gets the rest of larger rows.
  room.reset();
  room = Filled(two_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  EXPECT_EQ((*reader_.Take(4))[3], many_[3]);
}

TEST_F(DeviceRoomsTest, RoomsGoAfterTheirCopies) {
  LeasePtr room = Filled(one_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  room.reset();
  rooms_.Clear();
  EXPECT_EQ(*reader_.Take(3), one_);
}

TEST_F(DeviceRoomsTest, NoRowsAreNoWork) {
  const LeasePtr room = Filled({});
  fake_.FailCall(1);
  EXPECT_EQ(reader_.Queue(*room), absl::OkStatus());
  fake_.FailCall(0);
}

TEST_F(DeviceRoomsTest, AFillingThatFailedIsToldToTheNext) {
  LeasePtr room = Filled(one_);
  fake_.FailWork(1);
  room.reset();
  EXPECT_TRUE(absl::IsInternal(rooms_.Take(1, *writer_).status()));
}

TEST_F(DeviceRoomsTest, ReadersHearOfAFillingThatFailed) {
  const LeasePtr room = Filled(one_);
  ASSERT_EQ(reader_.Queue(*room), absl::OkStatus());
  fake_.FailWork(2);
  EXPECT_TRUE(absl::IsInternal(reader_.Take(3).status()));
}

// Two batches through one room, and a larger one, each given up before its copy
// is done.
absl::Status UseRooms(const FakeCuda& fake, Reader& reader) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Stream> writer,
                          cuda::Stream::Create(fake.device()));
  DeviceRooms rooms(fake.device());
  for (const size_t count : {3, 3, 9}) {
    const Rows rows(count, static_cast<float>(count));
    HEARTH_ASSIGN_OR_RETURN(LeasePtr room, Fill(rooms, *writer, rows));
    HEARTH_RETURN_IF_ERROR(reader.Queue(*room));
    room.reset();
    const Rows next(count);
    HEARTH_ASSIGN_OR_RETURN(room, Fill(rooms, *writer, next));
    room.reset();
    HEARTH_ASSIGN_OR_RETURN(const Rows taken, reader.Take(count));
    EXPECT_EQ(taken, rows);
  }
  return rooms.Take(1, *writer).status();
}

TEST(DeviceRoomsFaultTest, EveryCallMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    FakeCuda fake;
    Reader reader(fake);
    fake.FailCall(nth);
    const absl::Status status = UseRooms(fake, reader);
    failed = fake.failed();
    fake.FailCall(0);
    // The last ones are made by the ends of streams.
    if (failed && status.ok()) continue;
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 40);
}

TEST(DeviceRoomsFaultTest, EveryWorkMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    FakeCuda fake;
    Reader reader(fake);
    fake.FailWork(nth);
    const absl::Status status = UseRooms(fake, reader);
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
