#include "engine/model/device_kernels.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"

namespace hearth::model {
namespace {

// Those that are open.
struct Registry {
  absl::Mutex mutex;
  std::map<std::pair<at::DeviceType, at::DeviceIndex>,
           std::weak_ptr<DeviceKernels>>
      open ABSL_GUARDED_BY(mutex);

  std::weak_ptr<DeviceKernels>& At(const at::Device& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return open[{device.type(), device.index()}];
  }

  // Null if none are open.
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

}  // namespace hearth::model
