#include "engine/strategy/foresight/gpu_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

using cuda::Memory;

namespace {

// Rows that move between two calls of Flush: written ones, and others.
size_t MostMoving(int64_t row_bytes) {
  return std::max<size_t>(1, kGpuLoadBytes / static_cast<size_t>(row_bytes));
}

}  // namespace

GpuSlots::GpuSlots(const cuda::Device& device, int64_t num_slots,
                   const store::RowFormat& format, Memory rows,
                   std::unique_ptr<cuda::Stream> stream)
    : device_(device),
      num_slots_(num_slots),
      format_(format),
      row_bytes_(format.row_bytes()),
      most_moving_(MostMoving(row_bytes_)),
      rows_(std::move(rows)),
      staging_(device),
      stream_(std::move(stream)),
      buffers_(device) {}

absl::StatusOr<std::unique_ptr<GpuSlots>> GpuSlots::Make(
    const cuda::Device& device, int64_t num_slots,
    const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(
      Memory rows,
      Memory::Allocate(device, Memory::Kind::kDevice,
                       static_cast<uint64_t>(num_slots * format.row_bytes())));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Stream> stream,
                          cuda::Stream::Create(device));
  return std::unique_ptr<GpuSlots>(new GpuSlots(
      device, num_slots, format, std::move(rows), std::move(stream)));
}

uint64_t GpuSlots::MovingBytes(int64_t row_bytes) {
  // Written rows as they are copied, rows that are read or moved, three lists.
  constexpr uint64_t kListBytes = 3 * (sizeof(int64_t) + sizeof(int32_t));
  return MostMoving(row_bytes) *
         (2 * static_cast<uint64_t>(row_bytes) + kListBytes);
}

// Assembling a batch, all in one stream:
//
//  1. Take a buffer for its rows, which the stream fills once copies of the
//     buffer's former rows are done.
//  2. Queue copies of the rows that were read and of the lists, the scatter,
//     and behind it, as it may need the slots' former rows, the copies of
//     entering rows to their slots.
//  3. Rows that stay: record an event. Other rows: queue their copy to the
//     host, and wait.

absl::Status GpuSlots::Assemble(const Batch& batch, float* out) {
  return buffers_.FillAndCopy(
      InputBytes(batch), *stream_,
      [&](std::byte* rows) { return QueueRows(batch, rows); }, out);
}

absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
GpuSlots::AssembleOnDevice(const Batch& batch) {
  return buffers_.Fill(InputBytes(batch), *stream_,
                       [&](std::byte* rows) { return QueueRows(batch, rows); });
}

uint64_t GpuSlots::InputBytes(const Batch& batch) const {
  return static_cast<uint64_t>(batch.places.num_rows() * format_.dim) *
         sizeof(float);
}

absl::Status GpuSlots::QueueRows(const Batch& batch, std::byte* out) {
  const BatchPlaces& places = batch.places;
  staging_.Begin();
  const DeviceStaging::Part host =
      staging_.AddReached(batch.host, places.host.rows, places.host.positions);
  const DeviceStaging::Part rows = staging_.AddCopied(batch.read, {});
  const DeviceStaging::Part read =
      staging_.AddRowsOf(rows, places.read.rows, places.read.positions);
  const DeviceStaging::Part gpu =
      staging_.AddReached(rows_.data(), places.gpu.rows, places.gpu.positions);
  const DeviceStaging::Part entering =
      staging_.AddRowsOf(rows, places.entering.rows, places.entering.positions);
  HEARTH_RETURN_IF_ERROR(staging_.QueueCopies(*stream_));
  HearthCudaScatter scatter = {};
  scatter.element = CudaElement(format_.dtype);
  scatter.dim = format_.dim;
  scatter.out = reinterpret_cast<float*>(out);
  // Rows in host memory come first.
  scatter.parts[0] = staging_.At(host);
  scatter.parts[1] = staging_.At(read);
  scatter.parts[2] = staging_.At(gpu);
  HEARTH_RETURN_IF_ERROR(stream_->Scatter(scatter));
  return QueueStoredRows(*stream_, staging_.At(entering), places.entering.rows,
                         places.entering.positions, row_bytes_, rows_.data());
}

absl::Status GpuSlots::TakeMovingMemory() {
  if (moving_.size() > 0) return absl::OkStatus();
  const uint64_t bytes =
      static_cast<uint64_t>(most_moving_) * static_cast<uint64_t>(row_bytes_);
  HEARTH_ASSIGN_OR_RETURN(
      pinned_, Memory::Allocate(device_, Memory::Kind::kPinned, bytes));
  HEARTH_ASSIGN_OR_RETURN(
      moving_, Memory::Allocate(device_, Memory::Kind::kDevice, bytes));
  return absl::OkStatus();
}

absl::Status GpuSlots::Write(int64_t slot, const std::byte* row) {
  HEARTH_RETURN_IF_ERROR(TakeMovingMemory());
  if (written_.rows.size() == most_moving_) HEARTH_RETURN_IF_ERROR(Flush());
  const auto at = static_cast<int64_t>(written_.rows.size());
  std::memcpy(pinned_.data() + at * row_bytes_, row,
              static_cast<size_t>(row_bytes_));
  written_.Add(at, slot);
  return absl::OkStatus();
}

absl::Status GpuSlots::Read(int64_t slot, std::byte* row) {
  HEARTH_RETURN_IF_ERROR(TakeMovingMemory());
  if (taken_.rows.size() == most_moving_) HEARTH_RETURN_IF_ERROR(Flush());
  const auto at = static_cast<int64_t>(taken_.rows.size());
  taken_.Add(slot, at);
  read_.push_back({.row = at, .to = row});
  return absl::OkStatus();
}

absl::Status GpuSlots::Move(int64_t from, int64_t to) {
  HEARTH_RETURN_IF_ERROR(TakeMovingMemory());
  if (taken_.rows.size() == most_moving_) HEARTH_RETURN_IF_ERROR(Flush());
  const auto at = static_cast<int64_t>(taken_.rows.size());
  taken_.Add(from, at);
  moved_.Add(at, to);
  return absl::OkStatus();
}

absl::Status GpuSlots::Flush() {
  if (written_.rows.empty() && taken_.rows.empty()) return absl::OkStatus();
  absl::Status status = QueueMoves();
  status.Update(stream_->Wait());
  if (status.ok()) {
    for (const Taken& taken : read_) {
      std::memcpy(taken.to, pinned_.data() + taken.row * row_bytes_,
                  static_cast<size_t>(row_bytes_));
    }
  }
  written_.Clear();
  taken_.Clear();
  read_.clear();
  moved_.Clear();
  return status;
}

// All reads of slots come before all writes.
absl::Status GpuSlots::QueueMoves() {
  staging_.Begin();
  const DeviceStaging::Part taken =
      staging_.AddReached(rows_.data(), taken_.rows, taken_.positions);
  const DeviceStaging::Part written = staging_.AddCopied(
      {pinned_.data(), written_.rows.size() * static_cast<size_t>(row_bytes_)},
      written_.positions);
  const DeviceStaging::Part moved =
      staging_.AddReached(moving_.data(), moved_.rows, moved_.positions);
  HEARTH_RETURN_IF_ERROR(staging_.QueueCopies(*stream_));
  HEARTH_RETURN_IF_ERROR(QueueStoredRows(*stream_, staging_.At(taken),
                                         taken_.rows, taken_.positions,
                                         row_bytes_, moving_.data()));
  if (!read_.empty()) {
    HEARTH_RETURN_IF_ERROR(
        stream_->Copy(pinned_.data(), moving_.data(),
                      taken_.rows.size() * static_cast<uint64_t>(row_bytes_)));
  }
  HEARTH_RETURN_IF_ERROR(QueueStoredRows(*stream_, staging_.At(written),
                                         written_.rows, written_.positions,
                                         row_bytes_, rows_.data()));
  return QueueStoredRows(*stream_, staging_.At(moved), moved_.rows,
                         moved_.positions, row_bytes_, rows_.data());
}

void GpuSlots::Rest() {
  buffers_.Clear();
  staging_.Clear();
  pinned_ = {};
  moving_ = {};
}

}  // namespace hearth::strategy
