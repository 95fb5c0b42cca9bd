#include "engine/strategy/diskgnn/cuda_row_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/team.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/store/dtype.h"
#include "engine/store/row_format.h"
#include "engine/strategy/diskgnn/device_rooms.h"
#include "engine/strategy/diskgnn/packing/row_image.h"
#include "engine/train/device_rows.h"
#include "kernels/cuda/hearth_cuda.h"

// A batch:
//
//  1. A room for its rows, which the stream fills once copies of the rows of an
//     earlier batch are done. What is copied to the device has a staging area,
//     each part from an aligned address on, which grows if it must: batches
//     follow each other in the stream, so that one is enough.
//  2. Queued: copies of packed rows, of rows of the disk cache and of the
//     table's lists; the scatter.
//  3. For rows that stay an event is recorded; else their copy to the host is
//     queued.
//  4. Wait, for rows that stay only after an error: what was queued refers to
//     the batch.

namespace hearth::strategy {
namespace {

using cuda::Memory;

// Alignment of each part of the room for a batch: kernels read it fastest.
constexpr uint64_t kAlignment = 256;

HearthCudaElement ElementOf(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat16:
      return HEARTH_CUDA_FLOAT16;
    case store::DType::kBFloat16:
      return HEARTH_CUDA_BFLOAT16;
    default:
      return HEARTH_CUDA_FLOAT32;
  }
}

class CudaRowAssembler final : public RowAssembler {
 public:
  CudaRowAssembler(const cuda::Device& device, const store::RowFormat& format,
                   std::unique_ptr<cuda::Stream> stream)
      : device_(device),
        format_(format),
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
    staging_ = {};
  }

 private:
  using Room = std::unique_ptr<DeviceRooms::Lease>;

  // Bytes of the host that are to lie at `offset` of the staging area.
  struct Block {
    const void* host = nullptr;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };

  template <typename T>
  Block Add(absl::Span<const T> values) {
    const Block block = {.host = values.data(),
                         .bytes = values.size() * sizeof(T),
                         .offset = staged_bytes_};
    staged_bytes_ += (block.bytes + kAlignment - 1) / kAlignment * kAlignment;
    return block;
  }

  // One part of the scatter: where its lists and its rows lie. Rows that are
  // not staged are in `cache`.
  struct Part {
    Block rows;
    Block slots;
    Block positions;
    const std::byte* cache = nullptr;
  };

  Part CachedPart(const LevelAddresses& level, const Memory& cache);
  Part ReadPart(absl::Span<const std::byte> rows,
                absl::Span<const int32_t> positions);

  absl::Status LoadGpuCache(const LevelImages& images,
                            const std::stop_token& stop);
  uint64_t RowBytes(const LoadedRows& batch) const;
  absl::StatusOr<Room> Queue(const LoadedRows& batch);
  absl::Status Scatter(const LoadedRows& batch, std::byte* out);
  absl::Status GrowStaging();
  absl::Status Copy(const Block& block);
  absl::Status CopyPart(const Part& part, HearthCudaScatterPart& to);
  template <typename T>
  const T* Staged(const Block& block) const {
    return reinterpret_cast<const T*>(staging_.data() + block.offset);
  }

  const cuda::Device device_;
  const store::RowFormat format_;
  Memory gpu_rows_;
  Memory cpu_rows_;
  // The batch that is queued next takes staged_bytes_ of it.
  Memory staging_;
  uint64_t staged_bytes_ = 0;
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

CudaRowAssembler::Part CudaRowAssembler::CachedPart(const LevelAddresses& level,
                                                    const Memory& cache) {
  return {.rows = {},
          .slots = Add<int64_t>(level.rows),
          .positions = Add<int32_t>(level.positions),
          .cache = cache.data()};
}

CudaRowAssembler::Part CudaRowAssembler::ReadPart(
    absl::Span<const std::byte> rows, absl::Span<const int32_t> positions) {
  return {.rows = Add(rows), .slots = {}, .positions = Add(positions)};
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
  staged_bytes_ = 0;
  // Those that lie in host memory first.
  const Part parts[] = {CachedPart(table.cpu, cpu_rows_),
                        ReadPart(batch.packed, table.packed),
                        ReadPart(batch.disk, table.disk.positions),
                        CachedPart(table.gpu, gpu_rows_)};
  HEARTH_RETURN_IF_ERROR(GrowStaging());
  HearthCudaScatter scatter = {};
  static_assert(std::size(parts) == std::size(scatter.parts));
  scatter.element = ElementOf(format_.dtype);
  scatter.dim = format_.dim;
  scatter.out = reinterpret_cast<float*>(out);
  for (size_t i = 0; i < std::size(parts); ++i) {
    HEARTH_RETURN_IF_ERROR(CopyPart(parts[i], scatter.parts[i]));
  }
  return stream_->Scatter(scatter);
}

// Waits for what was queued, if it must grow.
absl::Status CudaRowAssembler::GrowStaging() {
  if (staging_.size() >= staged_bytes_) return absl::OkStatus();
  if (staging_.size() > 0) HEARTH_RETURN_IF_ERROR(stream_->Wait());
  // Given back first, so that there is place for the larger one.
  staging_ = {};
  HEARTH_ASSIGN_OR_RETURN(
      staging_,
      Memory::Allocate(device_, Memory::Kind::kDevice, staged_bytes_));
  return absl::OkStatus();
}

absl::Status CudaRowAssembler::Copy(const Block& block) {
  return stream_->Copy(staging_.data() + block.offset, block.host, block.bytes);
}

absl::Status CudaRowAssembler::CopyPart(const Part& part,
                                        HearthCudaScatterPart& to) {
  for (const Block* block : {&part.rows, &part.slots, &part.positions}) {
    HEARTH_RETURN_IF_ERROR(Copy(*block));
  }
  const bool cached = part.cache != nullptr;
  to.rows = cached ? part.cache : Staged<std::byte>(part.rows);
  to.slots = cached ? Staged<int64_t>(part.slots) : nullptr;
  to.positions = Staged<int32_t>(part.positions);
  to.count = static_cast<int64_t>(part.positions.bytes / sizeof(int32_t));
  return absl::OkStatus();
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
