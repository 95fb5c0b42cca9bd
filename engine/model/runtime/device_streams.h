#ifndef HEARTH_ENGINE_MODEL_RUNTIME_DEVICE_STREAMS_H_
#define HEARTH_ENGINE_MODEL_RUNTIME_DEVICE_STREAMS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"

/// Work on a device in LibTorch's streams: the plug-in's kernels, copies to the
/// device, and scalars that come back later.

namespace hearth::model {

/// The plug-in's kernels on tensors of one device that both LibTorch and the
/// plug-in know. A tensor's device selects the kernels, as it does for
/// LibTorch's own operators, because backward passes run on threads of
/// autograd, to which nothing else can be passed.
///
/// Work is queued in LibTorch's current stream, in the order of LibTorch's own
/// work, so memory of tensors, which LibTorch reuses in that order, is valid.
/// Thread-safe.
class DeviceKernels {
 public:
  /// Opens the kernels until the last owner is destroyed. Models on one device
  /// share them. REQUIRES: `device` is not the processor; always the same
  /// `plugin` for one device.
  static std::shared_ptr<DeviceKernels> Open(const at::Device& device,
                                             const cuda::Device& plugin);

  /// Calls `queue` with the current stream of `device`. Throws c10::Error with
  /// the message of the returned status. REQUIRES: the kernels of `device` are
  /// open.
  static void Queue(const at::Device& device,
                    absl::FunctionRef<absl::Status(cuda::Stream&)> queue);

  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

 private:
  DeviceKernels(const at::Device& device, const cuda::Device& plugin)
      : device_(device), plugin_(plugin) {}

  absl::Status QueueOnCurrent(
      absl::FunctionRef<absl::Status(cuda::Stream&)> queue)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<cuda::Stream*> Current() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const at::Device device_;
  const cuda::Device plugin_;
  absl::Mutex mutex_;
  // LibTorch's streams, by their native handles.
  std::map<void*, std::unique_ptr<cuda::Stream>> streams_
      ABSL_GUARDED_BY(mutex_);
};

/// `host` itself if `device` is the processor. Otherwise a copy on `device`:
/// elements go to pinned memory, which LibTorch caches, and a copy from there
/// is queued in a stream of copies, concurrent with the device's other work;
/// work that is queued later waits for it. `host` may change after the call.
/// Thread-safe.
at::Tensor ToDevice(const at::Tensor& host, const at::Device& device);

/// A float32 scalar that a device may not have computed yet.
class PendingScalar {
 public:
  /// Queues a copy of `scalar` to the host. REQUIRES: one element.
  explicit PendingScalar(const at::Tensor& scalar);

  /// Waits for the work queued before the copy, not for later work.
  float Get() const;

 private:
  at::Tensor host_;
  // Absent for a scalar on the processor.
  std::optional<c10::Event> copied_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RUNTIME_DEVICE_STREAMS_H_
