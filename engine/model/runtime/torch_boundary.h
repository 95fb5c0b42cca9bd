#ifndef HEARTH_ENGINE_MODEL_RUNTIME_TORCH_BOUNDARY_H_
#define HEARTH_ENGINE_MODEL_RUNTIME_TORCH_BOUNDARY_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace hearth::model {

/// While it lives, operations of LibTorch that this thread calls use `threads`
/// threads. Unlike at::set_num_threads, which is the process's, it leaves other
/// threads alone.
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

/// The one boundary around LibTorch: what it needs of process and thread is
/// set here, and its exceptions stop here. Knows no torch itself.

/// Makes LibTorch deterministic and lets it reuse memory, once per process;
/// cheap afterwards. Thread-safe. Must come before the first use of LibTorch.
void SetUpTorch();

/// Runs `function`, which uses LibTorch, on this thread with `threads` threads
/// inside each operation, and returns its status or, for an exception,
/// RESOURCE_EXHAUSTED (out of memory) or INTERNAL. The number of threads holds
/// for this call and this thread alone, so that concurrent models do not share
/// it.
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
