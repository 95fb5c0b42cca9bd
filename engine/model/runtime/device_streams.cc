#include "engine/model/runtime/device_streams.h"

#include <ATen/ops/empty.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status.h"

namespace hearth::model {

namespace {

// The open kernels, by device.
struct Registry {
  absl::Mutex mutex;
  std::map<std::pair<at::DeviceType, at::DeviceIndex>,
           std::weak_ptr<DeviceKernels>>
      open ABSL_GUARDED_BY(mutex);

  std::weak_ptr<DeviceKernels>& At(const at::Device& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return open[{device.type(), device.index()}];
  }

  // The kernels of `device`; null if they are not open.
  std::shared_ptr<DeviceKernels> Find(const at::Device& device)
      ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    return At(device).lock();
  }
};

Registry& TheRegistry() {
  static auto& registry = *new Registry;
  return registry;
}

}  // namespace

std::shared_ptr<DeviceKernels> DeviceKernels::Open(const at::Device& device,
                                                   const cuda::Device& plugin) {
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mutex);
  std::weak_ptr<DeviceKernels>& open = registry.At(device);
  std::shared_ptr<DeviceKernels> kernels = open.lock();
  if (kernels == nullptr) {
    kernels.reset(new DeviceKernels(device, plugin));
    open = kernels;
  }
  return kernels;
}

DeviceKernels::~DeviceKernels() = default;

void DeviceKernels::Queue(
    const at::Device& device,
    absl::FunctionRef<absl::Status(cuda::Stream&)> queue) {
  const std::shared_ptr<DeviceKernels> kernels = TheRegistry().Find(device);
  TORCH_CHECK(kernels != nullptr, "no model is on device ", device.str());
  const absl::Status status = kernels->QueueOnCurrent(queue);
  TORCH_CHECK(status.ok(), std::string(status.message()));
}

absl::Status DeviceKernels::QueueOnCurrent(
    absl::FunctionRef<absl::Status(cuda::Stream&)> queue) {
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(cuda::Stream* const stream, Current());
  return queue(*stream);
}

absl::StatusOr<cuda::Stream*> DeviceKernels::Current() {
  const c10::impl::VirtualGuardImpl guard(device_.type());
  void* const native = guard.getStreamNativeHandle(guard.getStream(device_));
  std::unique_ptr<cuda::Stream>& stream = streams_[native];
  if (stream == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(stream, cuda::Stream::Wrap(plugin_, native));
  }
  return stream.get();
}

namespace {

// The stream of copies to each device, shared by all steps, as the bus is.
// LibTorch never destroys streams.
class CopyStreams {
 public:
  c10::Stream Of(const at::Device& device) {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(device.index());
    if (found != streams_.end()) return found->second;
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type())
                                   .getStreamFromGlobalPool(device);
    streams_.emplace(device.index(), stream);
    return stream;
  }

 private:
  absl::Mutex mutex_;
  std::map<c10::DeviceIndex, c10::Stream> streams_ ABSL_GUARDED_BY(mutex_);
};

c10::Stream CopyStreamOf(const at::Device& device) {
  static auto& streams = *new CopyStreams;
  return streams.Of(device);
}

}  // namespace

at::Tensor ToDevice(const at::Tensor& host, const at::Device& device) {
  if (device.is_cpu() || host.numel() == 0) return host.to(device);
  const c10::impl::VirtualGuardImpl streams(device.type());
  const c10::Stream work = streams.getStream(device);
  const c10::Stream copies = CopyStreamOf(device);
  const at::Tensor pinned = host.pin_memory();
  at::Tensor copy;
  c10::Event copied(device.type());
  {
    const c10::StreamGuard guard(copies);
    copy = pinned.to(device, /*non_blocking=*/true);
    copied.record(copies);
  }
  copied.block(work);
  // The copy's memory belongs to its stream: once freed, it is reused only
  // after the work that was queued before.
  streams.recordDataPtrOnStream(copy.storage().data_ptr(), work);
  return copy;
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
