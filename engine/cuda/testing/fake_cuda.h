#ifndef HEARTH_ENGINE_CUDA_TESTING_FAKE_CUDA_H_
#define HEARTH_ENGINE_CUDA_TESTING_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// A plug-in without a GPU, for tests: device memory lies in host memory, at
/// addresses that crash the host if it looks there, and processors do the
/// device's work. It is as strict as a GPU and stricter: nothing is done before
/// it must be (what was queued, when somebody waits for it), so that a missing
/// wait shows as wrong bytes; fresh memory is full of rubbish; kernels may
/// touch nothing but device memory, pinned memory that is allocated and memory
/// that is registered. The kernels of models and of sampling are a GPU's own,
/// emulated. A native stream, to wrap, is one of the fake's.
///
/// There is one at a time. When it ends, it is a test failure if memory, a
/// stream or an event was not given back, or memory is still registered.
/// Thread-safe.
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

  /// The nth call from now on, from 1, of a function that is not one that gives
  /// something back, returns `error`. 0 = none does.
  void FailCall(int64_t nth, int error = kFailure);
  /// The same for the nth piece of work: who waits for it hears of it.
  void FailWork(int64_t nth);
  /// Whether that came to pass.
  bool failed() const;

  /// Scatters that were done.
  int64_t scatters() const;
  /// Bytes of each kind that are allocated now.
  int64_t device_bytes() const;
  int64_t pinned_bytes() const;
  /// Bytes of the host's memory that are registered now.
  int64_t registered_bytes() const;
  /// The most device memory that was allocated at a time, in bytes, since the
  /// last call.
  int64_t TakePeakDeviceBytes();

  /// Its memory, in bytes, as it tells of it.
  static constexpr size_t kTotalBytes = size_t{512} << 20;
  /// "unspecified launch failure".
  static constexpr int kFailure = 719;
  /// The error of a kernel that touched memory it may not touch.
  static constexpr int kIllegalAddress = 700;
};

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_TESTING_FAKE_CUDA_H_
