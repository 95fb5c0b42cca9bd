#include "engine/strategy/diskgnn/row_assembler.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/cache/assemble.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/device_buffers.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/train/train_step.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

RowImage LevelImages::gpu() const {
  return {.path = io::JoinPath(folder, kGpuCacheFile),
          .crc = layout.gpu_crc,
          .bytes = layout.gpu_cache_bytes()};
}

RowImage LevelImages::cpu() const {
  return {.path = io::JoinPath(folder, kCpuCacheFile),
          .crc = layout.cpu_crc,
          .bytes = layout.cpu_cache_bytes()};
}

namespace {

class CpuRowAssembler final : public RowAssembler {
 public:
  CpuRowAssembler(const store::RowFormat& format, io::AlignedMemory gpu,
                  io::AlignedMemory cpu)
      : format_(format), gpu_(std::move(gpu)), cpu_(std::move(cpu)) {}

  absl::Status Assemble(const LoadedRows& batch, ThreadTeam& team,
                        float* out) override {
    const AddressTable& table = batch.table;
    for (const auto& [level, rows] :
         {std::pair(&table.gpu, &gpu_), std::pair(&table.cpu, &cpu_)}) {
      cache::ScatterRows(team, RowsAt(rows->bytes().data()), level->rows,
                         level->positions, out);
    }
    cache::ScatterRows(team, RowsAt(batch.disk.data()), table.disk.positions,
                       out);
    cache::ScatterRows(team, RowsAt(batch.packed.data()), table.packed, out);
    return absl::OkStatus();
  }

  void Rest() override {}

 private:
  cache::StoredRows RowsAt(const std::byte* rows) const {
    return {.data = rows, .dtype = format_.dtype, .dim = format_.dim};
  }

  const store::RowFormat format_;
  const io::AlignedMemory gpu_;
  const io::AlignedMemory cpu_;
};

absl::StatusOr<io::AlignedMemory> Load(const LevelImages& images,
                                       const RowImage& image,
                                       const std::stop_token& stop) {
  if (image.bytes == 0) return io::AlignedMemory();
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(image.bytes));
  HEARTH_RETURN_IF_ERROR(LoadRowImage(images.files, image,
                                      memory.bytes().first(image.bytes), stop));
  return memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowAssembler>> NewCpuRowAssembler(
    const LevelImages& images, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory gpu,
                          Load(images, images.gpu(), stop));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory cpu,
                          Load(images, images.cpu(), stop));
  return std::make_unique<CpuRowAssembler>(images.format, std::move(gpu),
                                           std::move(cpu));
}

// Assembling a batch on a device:
//
//  1. Take a buffer for its rows, which the stream fills once copies of the
//     buffer's former rows are done.
//  2. Queue copies of packed rows, of rows of the disk cache and of the table's
//     lists; then the scatter.
//  3. Rows that stay: record an event. Other rows: queue their copy to the
//     host.
//  4. Wait, since the queued work reads memory of the batch; with rows that
//     stay, only after an error.

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
        buffers_(device) {}

  absl::Status Load(const LevelImages& images, const std::stop_token& stop);

  absl::Status Assemble(const LoadedRows& batch, ThreadTeam& team,
                        float* out) override;
  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> AssembleOnDevice(
      const LoadedRows& batch) override;

  // No work is queued: the end of all rows has waited for it.
  void Rest() override {
    buffers_.Clear();
    staging_.Clear();
  }

 private:
  absl::Status LoadGpuCache(const LevelImages& images,
                            const std::stop_token& stop);
  uint64_t RowBytes(const LoadedRows& batch) const;
  absl::Status Scatter(const LoadedRows& batch, std::byte* out);

  const cuda::Device device_;
  const store::RowFormat format_;
  Memory gpu_rows_;
  Memory cpu_rows_;
  DeviceStaging staging_;
  // Destroyed (which waits for its work) before the memory that the work uses,
  // and after the buffers, whose readers wait for the work.
  const std::unique_ptr<cuda::Stream> stream_;
  DeviceBufferPool buffers_;
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

absl::Status CudaRowAssembler::Assemble(const LoadedRows& batch,
                                        ThreadTeam& /*team*/, float* out) {
  return buffers_.FillAndCopy(
      RowBytes(batch), *stream_,
      [&](std::byte* rows) { return Scatter(batch, rows); }, out);
}

absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
CudaRowAssembler::AssembleOnDevice(const LoadedRows& batch) {
  return buffers_.Fill(RowBytes(batch), *stream_,
                       [&](std::byte* rows) { return Scatter(batch, rows); });
}

uint64_t CudaRowAssembler::RowBytes(const LoadedRows& batch) const {
  return static_cast<uint64_t>(batch.table.counts().total() * format_.dim) *
         sizeof(float);
}

absl::Status CudaRowAssembler::Scatter(const LoadedRows& batch,
                                       std::byte* out) {
  const AddressTable& table = batch.table;
  staging_.Begin();
  // Rows in host memory come first.
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
