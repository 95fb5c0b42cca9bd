#ifndef HEARTH_ENGINE_STRATEGY_DEVICE_ROOMS_H_
#define HEARTH_ENGINE_STRATEGY_DEVICE_ROOMS_H_

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
#include "engine/cuda/device.h"
#include "engine/cuda/event.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/train/device_rows.h"

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DEVICE_ROOMS_H_
