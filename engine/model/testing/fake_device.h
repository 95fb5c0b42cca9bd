#ifndef HEARTH_ENGINE_MODEL_TESTING_FAKE_DEVICE_H_
#define HEARTH_ENGINE_MODEL_TESTING_FAKE_DEVICE_H_

#include <c10/core/Device.h>

#include "engine/cuda/device.h"

namespace hearth::model {

/// A device of LibTorch for tests (of type PrivateUse1), with the memory and
/// two streams of a plug-in, FakeCuda: the default stream, and one in the pool.
/// The processor runs LibTorch's operators, with copies there and back that
/// wait for the current stream. Host code that reads a tensor crashes, and a
/// missing wait shows as rubbish. As on a GPU, freed memory is not reused
/// before all streams known to use it have gone past that point, and backward
/// passes run on a thread of autograd. Errors are thrown as LibTorch throws
/// errors of GPUs.
///
/// At most one exists at a time. It ends when all tensors on it are freed, for
/// which its destructor waits.
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
