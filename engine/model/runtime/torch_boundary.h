#ifndef HEARTH_ENGINE_MODEL_RUNTIME_TORCH_BOUNDARY_H_
#define HEARTH_ENGINE_MODEL_RUNTIME_TORCH_BOUNDARY_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace hearth::model {

/// Sets the number of threads with which this thread's calls of LibTorch run,
/// while the object lives. Unlike at::set_num_threads, which is for the
/// process, it does not affect other threads.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int openmp_before_;
  int mkl_before_;
};

/// The only boundary around LibTorch: the settings of process and thread that
/// it needs are made here, and its exceptions stop here. This header knows no
/// torch.

/// Makes LibTorch deterministic and lets it reuse memory, once per process;
/// later calls are cheap. Thread-safe. Must be called before the first use of
/// LibTorch.
void SetUpTorch();

/// Runs `function`, which uses LibTorch, on this thread with `threads` threads
/// inside each operation. Returns its status or, after an exception,
/// RESOURCE_EXHAUSTED (out of memory) or INTERNAL. The number of threads
/// applies to this call on this thread only, so concurrent models may differ.
absl::Status RunTorch(int threads, absl::FunctionRef<absl::Status()> function);

/// Marks the end of a step: gives up memory that LibTorch has freed and that
/// the last steps did not need again.
void EndTorchStep();

/// Gives up all memory that LibTorch has freed: before a model is copied, so
/// that its copies are not there beside a step's memory.
void ReleaseStepMemory();

/// The first member of a model: once all the model's tensors are freed, gives
/// the memory that is kept for the next step back to the kernel.
struct TorchMemory {
  ~TorchMemory();
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RUNTIME_TORCH_BOUNDARY_H_
