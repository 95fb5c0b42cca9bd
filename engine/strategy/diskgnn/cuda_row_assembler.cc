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
#include "engine/strategy/diskgnn/packing/row_image.h"
#include "kernels/cuda/hearth_cuda.h"

// A batch:
//
//  1. The room for it on the device grows if it must: output rows, then what is
//     copied, each from an aligned address on.
//  2. Queued: copies of packed rows, of rows of the disk cache and of the
//     table's lists; the scatter; the copy of the output to the host.
//  3. Wait, also after an error: what was queued refers to the batch.

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
      : device_(device), format_(format), stream_(std::move(stream)) {}

  absl::Status Load(const LevelImages& images, const std::stop_token& stop);

  absl::Status Assemble(const LoadedRows& batch, Team& team,
                        float* out) override;

  void Rest() override { room_ = {}; }

 private:
  // Bytes of the host that are to lie at `offset` of the room.
  struct Block {
    const void* host = nullptr;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };

  template <typename T>
  Block Add(absl::Span<const T> values) {
    const Block block = {.host = values.data(),
                         .bytes = values.size() * sizeof(T),
                         .offset = room_bytes_};
    Reserve(block.bytes);
    return block;
  }

  // One part of the scatter: where its lists and its rows lie. Rows that are
  // not in the room are in `cache`.
  struct Part {
    Block rows;
    Block slots;
    Block positions;
    const std::byte* cache = nullptr;
  };

  Part CachedPart(const LevelAddresses& level, const Memory& cache);
  Part ReadPart(absl::Span<const std::byte> rows,
                absl::Span<const int32_t> positions);

  void Reserve(uint64_t bytes) {
    room_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  absl::Status LoadGpuCache(const LevelImages& images,
                            const std::stop_token& stop);
  absl::Status Queue(const LoadedRows& batch, float* out);
  absl::Status GrowRoom();
  absl::Status Copy(const Block& block);
  absl::Status CopyPart(const Part& part, HearthCudaScatterPart& to);
  template <typename T>
  const T* InRoom(const Block& block) const {
    return reinterpret_cast<const T*>(room_.data() + block.offset);
  }

  const cuda::Device device_;
  const store::RowFormat format_;
  Memory gpu_rows_;
  Memory cpu_rows_;
  // For one batch; room_bytes_ of it are taken.
  Memory room_;
  uint64_t room_bytes_ = 0;
  // Destroyed first, which waits.
  const std::unique_ptr<cuda::Stream> stream_;
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
  absl::Status status = Queue(batch, out);
  status.Update(stream_->Wait());
  return status;
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

absl::Status CudaRowAssembler::Queue(const LoadedRows& batch, float* out) {
  const AddressTable& table = batch.table;
  const uint64_t out_bytes =
      static_cast<uint64_t>(table.counts().total() * format_.dim) *
      sizeof(float);
  if (out_bytes == 0) return absl::OkStatus();
  room_bytes_ = 0;
  Reserve(out_bytes);
  // Those that lie in host memory first.
  const Part parts[] = {CachedPart(table.cpu, cpu_rows_),
                        ReadPart(batch.packed, table.packed),
                        ReadPart(batch.disk, table.disk.positions),
                        CachedPart(table.gpu, gpu_rows_)};
  HEARTH_RETURN_IF_ERROR(GrowRoom());
  HearthCudaScatter scatter = {};
  static_assert(std::size(parts) == std::size(scatter.parts));
  scatter.element = ElementOf(format_.dtype);
  scatter.dim = format_.dim;
  scatter.out = reinterpret_cast<float*>(room_.data());
  for (size_t i = 0; i < std::size(parts); ++i) {
    HEARTH_RETURN_IF_ERROR(CopyPart(parts[i], scatter.parts[i]));
  }
  HEARTH_RETURN_IF_ERROR(stream_->Scatter(scatter));
  return stream_->Copy(out, room_.data(), out_bytes);
}

// Its contents are lost.
absl::Status CudaRowAssembler::GrowRoom() {
  if (room_.size() >= room_bytes_) return absl::OkStatus();
  // Given back first, so that there is place for the larger one.
  room_ = {};
  HEARTH_ASSIGN_OR_RETURN(
      room_, Memory::Allocate(device_, Memory::Kind::kDevice, room_bytes_));
  return absl::OkStatus();
}

absl::Status CudaRowAssembler::Copy(const Block& block) {
  return stream_->Copy(room_.data() + block.offset, block.host, block.bytes);
}

absl::Status CudaRowAssembler::CopyPart(const Part& part,
                                        HearthCudaScatterPart& to) {
  for (const Block* block : {&part.rows, &part.slots, &part.positions}) {
    HEARTH_RETURN_IF_ERROR(Copy(*block));
  }
  const bool cached = part.cache != nullptr;
  to.rows = cached ? part.cache : InRoom<std::byte>(part.rows);
  to.slots = cached ? InRoom<int64_t>(part.slots) : nullptr;
  to.positions = InRoom<int32_t>(part.positions);
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
