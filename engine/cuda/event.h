#ifndef HEARTH_ENGINE_CUDA_EVENT_H_
#define HEARTH_ENGINE_CUDA_EVENT_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// A point in the work of a stream, which has it recorded (Stream::Record): the
/// last one, if that is done again. Streams can wait for it (Stream::WaitFor),
/// and so can the host. One that was never recorded has passed. Used by one
/// thread at a time.
class Event {
 public:
  static absl::StatusOr<std::unique_ptr<Event>> Create(const Device& device);

  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Does not wait.
  ~Event();

  /// Until the stream has come to it. INTERNAL if the device fails.
  absl::Status Wait();

 private:
  friend class Stream;

  explicit Event(const Device& device) : device_(device) {}

  const Device device_;
  HearthCudaEvent* event_ = nullptr;
};

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_EVENT_H_
