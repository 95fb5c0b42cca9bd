#ifndef HEARTH_ENGINE_STRATEGY_DEVICE_BUFFERS_H_
#define HEARTH_ENGINE_STRATEGY_DEVICE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/store/array_type.h"
#include "engine/train/train_step.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

/// Rooms in a device's memory for the rows of batches. One stream, the
/// writer's, fills them; models copy the rows in streams of their own; then the
/// writer fills them anew. Streams wait for each other where they must, and the
/// host for neither, unless a room has to grow. There are as many rooms as were
/// ever lent at once.
///
/// Take and Clear belong to the writer's thread; all else is thread-safe.
class DeviceRooms {
 private:
  struct Room;

 public:
  /// A room, lent for a batch: its rows, for models.
  class Lease final : public train::DeviceRows {
   public:
    ~Lease() override;

    std::byte* data() const;

    /// All that fills the room is queued: the lease ends, on the thread that
    /// ends it, once that is done, so that what it refers to may go then.
    absl::Status Fill(cuda::Stream& writer);

    /// REQUIRES: Fill succeeded.
    absl::Status QueueCopy(void* stream, float* to) const override;

   private:
    friend class DeviceRooms;
    Lease(DeviceRooms& rooms, std::unique_ptr<Room> room);

    DeviceRooms& rooms_;
    std::unique_ptr<Room> room_;
    bool filled_ = false;
  };

  explicit DeviceRooms(const cuda::Device& device);
  DeviceRooms(const DeviceRooms&) = delete;
  DeviceRooms& operator=(const DeviceRooms&) = delete;
  /// As Clear.
  ~DeviceRooms();

  /// A room of `bytes`: what `writer` has queued from now on is done after the
  /// copies of the rows that were there before. The rooms outlive it.
  /// RESOURCE_EXHAUSTED if the device has no memory; INTERNAL if it fails or
  /// failed while an earlier room was filled.
  absl::StatusOr<std::unique_ptr<Lease>> Take(uint64_t bytes,
                                              cuda::Stream& writer);

  /// Gives up all rooms, after the copies of their rows. REQUIRES: none is
  /// lent.
  void Clear();

 private:
  absl::StatusOr<std::unique_ptr<Room>> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void Return(std::unique_ptr<Room> room, const absl::Status& filled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status QueueCopy(Room& room, void* stream, float* to)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<cuda::Stream*> Reader(void* stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const cuda::Device device_;
  absl::Mutex mutex_;
  // Streams of models, by their native handles.
  std::map<void*, std::unique_ptr<cuda::Stream>> readers_
      ABSL_GUARDED_BY(mutex_);
  // The room at the front came back first.
  std::deque<std::unique_ptr<Room>> free_ ABSL_GUARDED_BY(mutex_);
  // The first error of filling a room.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

/// The element type of kernels for `dtype`, that of features.
HearthCudaElement CudaElement(store::DType dtype);

/// The part of a device's memory in which a batch has what a scatter needs of
/// the host: lists, and rows that were read for it. Batches follow each other
/// in one stream, so that all share it; it grows with the largest. Used by one
/// thread at a time.
class DeviceStaging {
 public:
  /// Bytes of the host, and where they lie in the area.
  struct Block {
    const void* host = nullptr;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };

  /// One part of a scatter (HearthCudaScatterPart).
  struct Part {
    /// The rows, where the device reaches them as they are; null: `copied` are
    /// copied there. All of them in their order if there are no `slots`.
    const std::byte* rows = nullptr;
    Block copied = {};
    Block slots = {};
    Block positions = {};
  };

  explicit DeviceStaging(const cuda::Device& device) : device_(device) {}
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  /// Begins a batch, of which nothing has been added.
  void Begin();

  /// Adds the part of rows that the device reaches: row slots[i] of `rows` is
  /// for position positions[i].
  Part AddReached(const std::byte* rows, absl::Span<const int64_t> slots,
                  absl::Span<const int32_t> positions);

  /// Adds the part of rows that are copied: row i is for position positions[i].
  Part AddCopied(absl::Span<const std::byte> rows,
                 absl::Span<const int32_t> positions);

  /// Adds the part of some rows of `copied`, a part that was added: its row
  /// slots[i] is for position positions[i].
  Part AddRowsOf(const Part& copied, absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions);

  /// Queues the copies of all that was added, which stays as it is until they
  /// are done. An area that is too small is given back first, once all that
  /// `stream` has is done. RESOURCE_EXHAUSTED if the device has no memory;
  /// INTERNAL if it fails.
  absl::Status QueueCopies(cuda::Stream& stream);

  /// A part as a kernel takes it. REQUIRES: QueueCopies since it was added.
  HearthCudaScatterPart At(const Part& part) const;

  /// Gives the area back. REQUIRES: nothing is queued that uses it.
  void Clear() { memory_ = {}; }

 private:
  template <typename T>
  Block Add(absl::Span<const T> values);
  template <typename T>
  const T* Copied(const Block& block) const;

  const cuda::Device device_;
  cuda::Memory memory_;
  // Those of the batch that was begun last.
  std::vector<Block> blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DEVICE_BUFFERS_H_
