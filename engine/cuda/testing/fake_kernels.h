#ifndef HEARTH_ENGINE_CUDA_TESTING_FAKE_KERNELS_H_
#define HEARTH_ENGINE_CUDA_TESTING_FAKE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// Memory of FakeCuda: device memory, pinned memory and registered memory.
/// Thread-compatible.
class FakeMemory {
 public:
  enum class Kind { kDevice, kPinned };

  /// Allocates memory full of rubbish, aligned to a page; null without memory.
  /// The host crashes if it accesses an address of device memory.
  void* Allocate(Kind kind, size_t bytes);

  /// Frees memory; false if there was no such allocation.
  bool Release(Kind kind, void* memory);

  /// Registers host memory, so that kernels may touch it; false if a part of it
  /// is registered. Unregister: false if it is not registered.
  bool Register(void* memory, size_t bytes);
  bool Unregister(void* memory);

  /// Bytes of `kind` that are allocated now, and bytes that are registered now.
  int64_t bytes(Kind kind) const;
  int64_t registered_bytes() const;

  /// Host address of `bytes` at `pointer`; null if a kernel may not touch them.
  template <typename T>
  T* ReachFromKernel(T* pointer, size_t bytes) const {
    return reinterpret_cast<T*>(
        HostAddress(reinterpret_cast<uintptr_t>(pointer), bytes, false));
  }

  /// Host address for a copy, which may also touch all host memory.
  template <typename T>
  T* ReachFromCopy(T* pointer, size_t bytes) const {
    return reinterpret_cast<T*>(
        HostAddress(reinterpret_cast<uintptr_t>(pointer), bytes, true));
  }

 private:
  // Bytes by host address.
  using Blocks = std::map<uintptr_t, size_t>;

  uintptr_t HostAddress(uintptr_t address, size_t bytes,
                        bool any_of_host) const;
  Blocks& BlocksOf(Kind kind) {
    return kind == Kind::kDevice ? device_ : pinned_;
  }

  Blocks device_;
  Blocks pinned_;
  Blocks registered_;
};

/// Gather and scatter, by the CPU's kernels. False, with some of the work
/// undone, where a pointer is not in memory that a GPU may touch; so do all
/// functions below.
bool RunGather(const FakeMemory& memory, const HearthCudaGather& gather);
bool RunScatter(const FakeMemory& memory, const HearthCudaScatter& scatter);

/// A GPU's own kernels for models, emulated.
bool RunSum(const FakeMemory& memory, HearthCudaSum sum);
bool RunDots(const FakeMemory& memory, HearthCudaDots dots);
bool RunScores(const FakeMemory& memory, HearthCudaScores scores);
bool RunSoftmax(const FakeMemory& memory, HearthCudaSoftmax softmax);
bool RunSoftmaxGradient(const FakeMemory& memory, HearthCudaSoftmax softmax);
bool RunScoreGradient(const FakeMemory& memory,
                      HearthCudaScoreGradient gradient);
bool RunActivate(const FakeMemory& memory, HearthCudaActivate activate);
bool RunActivationGradient(const FakeMemory& memory,
                           HearthCudaActivate activate);

/// A GPU's own kernels for sampling, emulated.
bool RunFillTable(const FakeMemory& memory, HearthCudaFillTable fill);
bool RunLookUp(const FakeMemory& memory, HearthCudaLookUp look_up);
bool RunCountEdges(const FakeMemory& memory, HearthCudaCountEdges count);
bool RunSampleLayer(const FakeMemory& memory, HearthCudaSampleLayer layer);

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_TESTING_FAKE_KERNELS_H_
