#ifndef HEARTH_ENGINE_MODEL_TESTING_FAKE_DEVICE_H_
#define HEARTH_ENGINE_MODEL_TESTING_FAKE_DEVICE_H_

#include <c10/core/Device.h>

#include "engine/cuda/device.h"

namespace hearth::model {

/// A device of LibTorch's for tests (of its type PrivateUse1), with the memory
/// and two streams of a plug-in, FakeCuda's: the default one, and one in the
/// pool. LibTorch's operators are done by the processor, with copies there and
/// back that wait for the current stream; host code that looks into a tensor
/// crashes, and what was not waited for shows as rubbish. As on a GPU, freed
/// memory is not reused before the streams that it is known to be used by have
/// gone past, and backward passes run on a thread of autograd's. Errors are
/// thrown as LibTorch throws those of GPUs.
///
/// There is one at a time. It ends once all tensors on it are freed, which is a
/// matter of moments.
class FakeDevice {
 public:
  explicit FakeDevice(const cuda::Device& plugin);
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;
  ~FakeDevice();

  at::Device device() const { return {at::kPrivateUse1, 0}; }
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_TESTING_FAKE_DEVICE_H_
