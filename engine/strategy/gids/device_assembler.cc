#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/cuda/event.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/strategy/device_rooms.h"
#include "engine/strategy/device_staging.h"
#include "engine/strategy/gids/batch_assembler.h"
#include "kernels/cuda/hearth_cuda.h"

// A batch, all in one stream:
//
//  1. A room for its rows, which the stream fills once copies of the rows of an
//     earlier batch are done.
//  2. Copies of its missing rows and of the lists that say where rows are; an
//     event that follows them.
//  3. The scatter of rows of the constant buffer, of missing ones and of lines.
//  4. Missing rows that the cache keeps go to their lines: after the scatter,
//     which may need what is there.
//  5. For rows that stay an event is recorded, and the batch may go once its
//     copies are done; else the rows are copied to the host.

namespace hearth::strategy {
namespace {

using cuda::Memory;

class DeviceAssembler final : public BatchAssembler {
 public:
  DeviceAssembler(const cuda::Device& device, const store::RowFormat& format,
                  Memory lines, std::unique_ptr<cuda::Event> copied,
                  std::unique_ptr<cuda::Stream> stream)
      : format_(format),
        lines_(std::move(lines)),
        copied_(std::move(copied)),
        staging_(device),
        stream_(std::move(stream)),
        rooms_(device) {}

  absl::Status Assemble(const ReadBatch& batch, float* out) override {
    const absl::StatusOr<Room> room = Queue(batch);
    absl::Status status = room.status();
    if (status.ok()) {
      status = stream_->Copy(out, (*room)->data(), InputBytes(batch));
    }
    status.Update(stream_->Wait());
    return status;
  }

  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> AssembleOnDevice(
      const ReadBatch& batch) override {
    absl::StatusOr<Room> room = Queue(batch);
    absl::Status status = room.status();
    if (status.ok()) status = (*room)->Fill(*stream_);
    if (status.ok()) status = copied_->Wait();
    if (!status.ok()) {
      stream_->Wait().IgnoreError();
      return status;
    }
    return *std::move(room);
  }

  // Nothing is queued: who had rows waited.
  void Rest() override {
    rooms_.Clear();
    staging_.Clear();
  }

 private:
  using Room = std::unique_ptr<DeviceRooms::Lease>;

  uint64_t InputBytes(const ReadBatch& batch) const {
    return static_cast<uint64_t>(batch.rows.num_rows() * format_.dim) *
           sizeof(float);
  }

  absl::StatusOr<Room> Queue(const ReadBatch& batch) {
    HEARTH_ASSIGN_OR_RETURN(Room room,
                            rooms_.Take(InputBytes(batch), *stream_));
    if (room->data() != nullptr) {
      HEARTH_RETURN_IF_ERROR(QueueRows(batch, room->data()));
    }
    return room;
  }

  absl::Status QueueRows(const ReadBatch& batch, std::byte* out) {
    const LocatedRows& rows = batch.rows;
    staging_.Begin();
    const DeviceStaging::Part buffered = staging_.AddReached(
        batch.buffer.rows(), rows.buffer_slots, rows.buffer_positions);
    const DeviceStaging::Part missing =
        staging_.AddCopied(batch.missing, rows.missing_positions);
    const DeviceStaging::Part cached =
        staging_.AddReached(lines_.data(), rows.lines, rows.line_positions);
    const DeviceStaging::Part entering =
        staging_.AddRowsOf(missing, rows.entering, rows.entering_lines);
    HEARTH_RETURN_IF_ERROR(staging_.QueueCopies(*stream_));
    HEARTH_RETURN_IF_ERROR(stream_->Record(*copied_));
    HearthCudaScatter scatter = {};
    scatter.element = CudaElement(format_.dtype);
    scatter.dim = format_.dim;
    scatter.out = reinterpret_cast<float*>(out);
    // Those that lie in host memory first.
    scatter.parts[0] = staging_.At(buffered);
    scatter.parts[1] = staging_.At(missing);
    scatter.parts[2] = staging_.At(cached);
    HEARTH_RETURN_IF_ERROR(stream_->Scatter(scatter));
    return KeepRows(rows, staging_.At(entering));
  }

  // Queues copies of missing rows, as stored, to their lines: as rows of
  // float32, which a scatter leaves as they are, if they have such a size.
  absl::Status KeepRows(const LocatedRows& rows,
                        const HearthCudaScatterPart& entering) {
    if (rows.entering.empty()) return absl::OkStatus();
    const int64_t row_bytes = format_.row_bytes();
    if (row_bytes % static_cast<int64_t>(sizeof(float)) == 0) {
      HearthCudaScatter scatter = {};
      scatter.parts[0] = entering;
      scatter.element = HEARTH_CUDA_FLOAT32;
      scatter.dim = row_bytes / static_cast<int64_t>(sizeof(float));
      scatter.out = reinterpret_cast<float*>(lines_.data());
      return stream_->Scatter(scatter);
    }
    const auto* from = static_cast<const std::byte*>(entering.rows);
    for (size_t i = 0; i < rows.entering.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(
          stream_->Copy(lines_.data() + rows.entering_lines[i] * row_bytes,
                        from + rows.entering[i] * row_bytes,
                        static_cast<uint64_t>(row_bytes)));
    }
    return absl::OkStatus();
  }

  const store::RowFormat format_;
  Memory lines_;
  // After the copies of the batch that was queued last.
  const std::unique_ptr<cuda::Event> copied_;
  DeviceStaging staging_;
  // Destroyed before all memory that its work refers to, which waits, and after
  // the rooms, whose readers wait for its work.
  const std::unique_ptr<cuda::Stream> stream_;
  DeviceRooms rooms_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchAssembler>> NewDeviceAssembler(
    const cuda::Device& device, int64_t num_lines,
    const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(
      Memory lines,
      Memory::Allocate(device, Memory::Kind::kDevice,
                       static_cast<uint64_t>(num_lines * format.row_bytes())));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Event> copied,
                          cuda::Event::Create(device));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Stream> stream,
                          cuda::Stream::Create(device));
  return std::make_unique<DeviceAssembler>(
      device, format, std::move(lines), std::move(copied), std::move(stream));
}

}  // namespace hearth::strategy
