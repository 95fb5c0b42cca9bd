#ifndef HEARTH_ENGINE_CUDA_TESTING_FAKE_KERNELS_H_
#define HEARTH_ENGINE_CUDA_TESTING_FAKE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// The memory of FakeCuda: which addresses are a device's, which are pinned,
/// and what is there. Thread-compatible.
class FakeMemory {
 public:
  enum class Kind { kDevice, kPinned };

  /// Full of rubbish, aligned to a page; null without memory. An address of the
  /// device's is none of the host's: whoever looks there crashes.
  void* Allocate(Kind kind, size_t bytes);

  /// Whether there was such memory.
  bool Release(Kind kind, void* memory);

  /// Makes memory of the host one that kernels may touch; whether it was none
  /// before. The other way round likewise.
  bool Register(void* memory, size_t bytes);
  bool Unregister(void* memory);

  /// Bytes of one kind that are allocated now, and that are registered.
  int64_t bytes(Kind kind) const;
  int64_t registered_bytes() const;

  /// Where `bytes` at `pointer` are in the host: null if a kernel may not touch
  /// them.
  template <typename T>
  T* ReachFromKernel(T* pointer, size_t bytes) const {
    return reinterpret_cast<T*>(
        HostAddress(reinterpret_cast<uintptr_t>(pointer), bytes, false));
  }

  /// The same for a copy, which may touch all memory of the host.
  template <typename T>
  T* ReachFromCopy(T* pointer, size_t bytes) const {
    return reinterpret_cast<T*>(
        HostAddress(reinterpret_cast<uintptr_t>(pointer), bytes, true));
  }

 private:
  // Address in the host -> bytes.
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

/// The kernels of FakeCuda: those of the CPU, which touch nothing but what a
/// GPU may. False, with some of the work undone, where they were to.
bool RunGather(const FakeMemory& memory, const HearthCudaGather& gather);
bool RunScatter(const FakeMemory& memory, const HearthCudaScatter& scatter);

/// Those that models use: a GPU's own, emulated.
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

/// Those that sample batches, likewise.
bool RunFillTable(const FakeMemory& memory, HearthCudaFillTable fill);
bool RunLookUp(const FakeMemory& memory, HearthCudaLookUp look_up);
bool RunCountEdges(const FakeMemory& memory, HearthCudaCountEdges count);
bool RunSampleLayer(const FakeMemory& memory, HearthCudaSampleLayer layer);

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_TESTING_FAKE_KERNELS_H_
