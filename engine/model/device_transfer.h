#ifndef HEARTH_ENGINE_MODEL_DEVICE_TRANSFER_H_
#define HEARTH_ENGINE_MODEL_DEVICE_TRANSFER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace hearth::model {

/// `host` on `device`: itself if that is the processor. Else its elements go to
/// pinned memory, of which LibTorch keeps some, and a copy from there is queued
/// in a stream of copies, beside the device's other work; work that is queued
/// later waits for it. Nobody else does, and `host` may change. Thread-safe.
at::Tensor ToDevice(const at::Tensor& host, const at::Device& device);

/// A float32 scalar that a device is yet to compute.
class PendingScalar {
 public:
  /// Queues its copy to the host. REQUIRES: one element.
  explicit PendingScalar(const at::Tensor& scalar);

  /// Waits for the work that was queued before the copy, not for later work.
  float Get() const;

 private:
  at::Tensor host_;
  // Absent for a scalar of the processor's.
  std::optional<c10::Event> copied_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_DEVICE_TRANSFER_H_
