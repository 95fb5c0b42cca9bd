#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_GPU_SLOTS_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_GPU_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/device_buffers.h"
#include "engine/train/train_step.h"

/// Slots of a planned cache in the memory of a GPU, and the batches that are
/// assembled there (GpuSlots).

namespace hearth::strategy {

/// Row rows[i] goes to positions[i].
struct RowList {
  std::vector<int64_t> rows;
  std::vector<int32_t> positions;

  void Add(int64_t row, int64_t position) {
    rows.push_back(row);
    positions.push_back(static_cast<int32_t>(position));
  }
  void Clear() {
    rows.clear();
    positions.clear();
  }
};

/// Where the rows of a batch are: each position among its inputs is in one of
/// the first three lists.
struct BatchPlaces {
  /// Slots on the GPU.
  RowList gpu;
  /// Slots in host memory, counted from the first one there.
  RowList host;
  /// Rows that were read for the batch.
  RowList read;
  /// Rows that were read, and the slots on the GPU that they enter.
  RowList entering;

  int64_t num_rows() const {
    return static_cast<int64_t>(gpu.rows.size() + host.rows.size() +
                                read.rows.size());
  }
  /// Bytes of the lists for each row of a batch, with the capacity that lists
  /// have grown to.
  static constexpr uint64_t kBytesPerRow =
      2 * 2 * (sizeof(int64_t) + sizeof(int32_t));
};

/// Rows as stored in numbered slots of a GPU's memory. All work is on one
/// stream. All functions return INTERNAL if the device fails, perhaps in
/// earlier work, and RESOURCE_EXHAUSTED if it has no memory. Used by one thread
/// at a time.
class GpuSlots {
 public:
  /// A batch whose rows were read.
  struct Batch {
    const BatchPlaces& places;
    /// The slots in host memory, which the device can read in place.
    const std::byte* host;
    /// The rows that were read, as stored.
    absl::Span<const std::byte> read;
  };

  /// Device memory, in addition to the slots: for the largest batch so far its
  /// rows that were read, and lists of up to 24 bytes a row; for as many
  /// batches as were assembled at once all rows as float32; and MovingBytes.
  static absl::StatusOr<std::unique_ptr<GpuSlots>> Make(
      const cuda::Device& device, int64_t num_slots,
      const store::RowFormat& format);

  /// Device memory that rows move through, at most.
  static uint64_t MovingBytes(int64_t row_bytes);

  int64_t num_slots() const { return num_slots_; }
  const cuda::Device& device() const { return device_; }

  /// Widens all rows of a batch to their positions in `out`, [rows, dim]
  /// float32 in host memory, then copies the entering rows to their slots;
  /// complete on return.
  absl::Status Assemble(const Batch& batch, float* out);

  /// As Assemble, but the rows stay on the device, for models that train there.
  /// On return they may still be on their way: all of `batch` must outlive the
  /// returned rows, whose end waits for them.
  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> AssembleOnDevice(
      const Batch& batch);

  /// Copy a row to a slot, from a slot, or from one to another. Done at the
  /// next Flush, or before; `row` of Write is read at once. REQUIRES: since the
  /// last Flush the slot that is read was not written, and the one that is
  /// written was not written before.
  absl::Status Write(int64_t slot, const std::byte* row);
  absl::Status Read(int64_t slot, std::byte* row);
  absl::Status Move(int64_t from, int64_t to);

  /// Does all that the last Write, Read and Move have left.
  absl::Status Flush();

  /// Frees all memory but that of the slots. REQUIRES: no rows of
  /// AssembleOnDevice are left.
  void Rest();

 private:
  GpuSlots(const cuda::Device& device, int64_t num_slots,
           const store::RowFormat& format, cuda::Memory rows,
           std::unique_ptr<cuda::Stream> stream);

  std::byte* row(int64_t slot) { return rows_.data() + slot * row_bytes_; }
  uint64_t InputBytes(const Batch& batch) const;
  absl::Status QueueRows(const Batch& batch, std::byte* out);
  absl::Status TakeMovingMemory();
  absl::Status QueueMoves();

  const cuda::Device device_;
  const int64_t num_slots_;
  const store::RowFormat format_;
  const int64_t row_bytes_;
  const size_t most_moving_;
  cuda::Memory rows_;
  DeviceStaging staging_;
  // Rows that are written, then those that are read; rows of slots that are
  // read. Allocated once rows move.
  cuda::Memory pinned_;
  cuda::Memory moving_;
  // Rows of `pinned_`, and their slots.
  RowList written_;
  // Slots, and rows of `moving_`.
  RowList taken_;
  // Rows of `moving_`: where they go in host memory, or their new slots.
  struct Taken {
    int64_t row;
    std::byte* to;
  };
  std::vector<Taken> read_;
  RowList moved_;
  // Destroyed (which waits for its work) before the memory that the work uses,
  // and after the buffers, whose readers wait for the work.
  const std::unique_ptr<cuda::Stream> stream_;
  DeviceBufferPool buffers_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_GPU_SLOTS_H_
