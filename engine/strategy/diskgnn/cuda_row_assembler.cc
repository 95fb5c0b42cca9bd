#include "engine/strategy/diskgnn/cuda_row_assembler.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/team.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/store/row_format.h"
#include "engine/strategy/device_rooms.h"
#include "engine/strategy/device_staging.h"
#include "engine/strategy/diskgnn/packing/row_image.h"
#include "engine/train/device_rows.h"
#include "kernels/cuda/hearth_cuda.h"

// A batch:
//
//  1. A room for its rows, which the stream fills once copies of the rows of an
//     earlier batch are done.
//  2. Queued: copies of packed rows, of rows of the disk cache and of the
//     table's lists; the scatter.
//  3. For rows that stay an event is recorded; else their copy to the host is
//     queued.
//  4. Wait, for rows that stay only after an error: what was queued refers to
//     the batch.

namespace hearth::strategy {
namespace {

using cuda::Memory;

class CudaRowAssembler final : public RowAssembler {
 public:
  CudaRowAssembler(const cuda::Device& device, const store::RowFormat& format,
                   std::unique_ptr<cuda::Stream> stream)
      : device_(device),
        format_(format),
        staging_(device),
        stream_(std::move(stream)),
        rooms_(device) {}

  absl::Status Load(const LevelImages& images, const std::stop_token& stop);

  absl::Status Assemble(const LoadedRows& batch, Team& team,
                        float* out) override;
  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> AssembleOnDevice(
      const LoadedRows& batch) override;

  // Nothing is queued: who had rows waited.
  void Rest() override {
    rooms_.Clear();
    staging_.Clear();
  }

 private:
  using Room = std::unique_ptr<DeviceRooms::Lease>;

  absl::Status LoadGpuCache(const LevelImages& images,
                            const std::stop_token& stop);
  uint64_t RowBytes(const LoadedRows& batch) const;
  absl::StatusOr<Room> Queue(const LoadedRows& batch);
  absl::Status Scatter(const LoadedRows& batch, std::byte* out);

  const cuda::Device device_;
  const store::RowFormat format_;
  Memory gpu_rows_;
  Memory cpu_rows_;
  DeviceStaging staging_;
  // Destroyed before all memory that its work refers to, which waits, and after
  // the rooms, whose readers wait for its work.
  const std::unique_ptr<cuda::Stream> stream_;
  DeviceRooms rooms_;
};

absl::Status CudaRowAssembler::Load(const LevelImages& images,
                                    const std::stop_token& stop) {
  HEARTH_RETURN_IF_ERROR(LoadGpuCache(images, stop));
  const RowImage image = images.cpu();
  HEARTH_ASSIGN_OR_RETURN(
      cpu_rows_, Memory::Allocate(device_, Memory::Kind::kPinned, image.bytes));
  if (image.bytes == 0) return absl::OkStatus();
  return LoadRowImage(images.files, image, {cpu_rows_.data(), cpu_rows_.size()},
                      stop);
}

absl::Status CudaRowAssembler::LoadGpuCache(const LevelImages& images,
                                            const std::stop_token& stop) {
  const RowImage image = images.gpu();
  HEARTH_ASSIGN_OR_RETURN(
      gpu_rows_, Memory::Allocate(device_, Memory::Kind::kDevice, image.bytes));
  if (image.bytes == 0) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      const Memory buffer,
      Memory::Allocate(device_, Memory::Kind::kPinned, kGpuLoadBytes));
  return StreamRowImage(
      images.files, image, {buffer.data(), buffer.size()},
      [&](uint64_t at, absl::Span<const std::byte> part) {
        absl::Status status =
            stream_->Copy(gpu_rows_.data() + at, part.data(), part.size());
        status.Update(stream_->Wait());
        return status;
      },
      stop);
}

absl::Status CudaRowAssembler::Assemble(const LoadedRows& batch, Team& /*team*/,
                                        float* out) {
  if (RowBytes(batch) == 0) return absl::OkStatus();
  const absl::StatusOr<Room> room = Queue(batch);
  absl::Status status = room.status();
  if (status.ok()) {
    status = stream_->Copy(out, (*room)->data(), RowBytes(batch));
  }
  status.Update(stream_->Wait());
  return status;
}

absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
CudaRowAssembler::AssembleOnDevice(const LoadedRows& batch) {
  absl::StatusOr<Room> room = Queue(batch);
  absl::Status status = room.status();
  if (status.ok()) status = (*room)->Fill(*stream_);
  if (!status.ok()) {
    stream_->Wait().IgnoreError();
    return status;
  }
  return *std::move(room);
}

uint64_t CudaRowAssembler::RowBytes(const LoadedRows& batch) const {
  return static_cast<uint64_t>(batch.table.counts().total() * format_.dim) *
         sizeof(float);
}

absl::StatusOr<CudaRowAssembler::Room> CudaRowAssembler::Queue(
    const LoadedRows& batch) {
  HEARTH_ASSIGN_OR_RETURN(Room room, rooms_.Take(RowBytes(batch), *stream_));
  if (room->data() != nullptr) {
    HEARTH_RETURN_IF_ERROR(Scatter(batch, room->data()));
  }
  return room;
}

absl::Status CudaRowAssembler::Scatter(const LoadedRows& batch,
                                       std::byte* out) {
  const AddressTable& table = batch.table;
  staging_.Begin();
  // Those that lie in host memory first.
  const DeviceStaging::Part parts[] = {
      staging_.AddReached(cpu_rows_.data(), table.cpu.rows,
                          table.cpu.positions),
      staging_.AddCopied(batch.packed, table.packed),
      staging_.AddCopied(batch.disk, table.disk.positions),
      staging_.AddReached(gpu_rows_.data(), table.gpu.rows,
                          table.gpu.positions)};
  HEARTH_RETURN_IF_ERROR(staging_.QueueCopies(*stream_));
  HearthCudaScatter scatter = {};
  static_assert(std::size(parts) == std::size(scatter.parts));
  scatter.element = CudaElement(format_.dtype);
  scatter.dim = format_.dim;
  scatter.out = reinterpret_cast<float*>(out);
  for (size_t i = 0; i < std::size(parts); ++i) {
    scatter.parts[i] = staging_.At(parts[i]);
  }
  return stream_->Scatter(scatter);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowAssembler>> NewCudaRowAssembler(
    const cuda::Device& device, const LevelImages& images,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Stream> stream,
                          cuda::Stream::Create(device));
  auto assembler = std::make_unique<CudaRowAssembler>(device, images.format,
                                                      std::move(stream));
  HEARTH_RETURN_IF_ERROR(assembler->Load(images, stop));
  return assembler;
}

}  // namespace hearth::strategy
