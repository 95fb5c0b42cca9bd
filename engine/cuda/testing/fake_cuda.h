#ifndef HEARTH_ENGINE_CUDA_TESTING_FAKE_CUDA_H_
#define HEARTH_ENGINE_CUDA_TESTING_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// A plug-in without a GPU, for tests: device memory lies in host memory, at
/// addresses that crash the host if it looks there, and the CPU does the
/// device's work. Stricter than a GPU: queued work is done only when somebody
/// waits for it, so that a missing wait shows as wrong bytes; fresh memory is
/// full of rubbish; kernels may touch only device memory, allocated pinned
/// memory and registered memory. The kernels of models and of sampling are a
/// GPU's own, emulated. A native stream, for Stream::Wrap, is a
/// HearthCudaStream of the fake.
///
/// One may exist at a time. Its destructor fails the test if memory, a stream
/// or an event was not given back, or memory is still registered. Thread-safe.
class FakeCuda {
 public:
  /// When queued work is done.
  enum class Work { kAtOnce, kWhenWaitedFor };

  explicit FakeCuda(Work work = Work::kWhenWaitedFor);
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;
  ~FakeCuda();

  Device device() const { return {.table = &table(), .number = 0}; }
  static const HearthCudaTable& table();

  /// Makes the nth call from now on (counted from 1) of any function but those
  /// that give something back return `error`. 0 = no call.
  void FailCall(int64_t nth, int error = kFailure);
  /// Makes the nth piece of queued work from now on fail: waiting for it
  /// returns the error.
  void FailWork(int64_t nth);
  /// Whether the call or work to fail has come.
  bool failed() const;

  /// Number of scatters done.
  int64_t scatters() const;
  /// Bytes of each kind that are allocated now.
  int64_t device_bytes() const;
  int64_t pinned_bytes() const;
  /// Bytes of the host's memory that are registered now.
  int64_t registered_bytes() const;
  /// The most device memory, in bytes, that was allocated at a time since the
  /// last call.
  int64_t TakePeakDeviceBytes();

  /// Total memory that the fake reports, in bytes.
  static constexpr size_t kTotalBytes = size_t{512} << 20;
  /// CUDA's "unspecified launch failure".
  static constexpr int kFailure = 719;
  /// CUDA's error of a kernel that touched memory it may not touch.
  static constexpr int kIllegalAddress = 700;
};

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_TESTING_FAKE_CUDA_H_
