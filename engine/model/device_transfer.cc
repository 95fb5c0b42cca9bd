#include "engine/model/device_transfer.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace hearth::model {

at::Tensor ToDevice(const at::Tensor& host, const at::Device& device) {
  if (device.is_cpu() || host.numel() == 0) return host.to(device);
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

PendingScalar::PendingScalar(const at::Tensor& scalar) : host_(scalar) {
  const at::Device device = scalar.device();
  if (device.is_cpu()) return;
  host_ = at::empty(
      scalar.sizes(),
      scalar.options().device(at::kCPU).requires_grad(false).pinned_memory(
          true));
  host_.copy_(scalar, /*non_blocking=*/true);
  copied_.emplace(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

float PendingScalar::Get() const {
  if (copied_.has_value()) copied_->synchronize();
  return host_.item<float>();
}

}  // namespace hearth::model
