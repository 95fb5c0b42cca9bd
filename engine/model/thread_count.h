#ifndef HEARTH_ENGINE_MODEL_THREAD_COUNT_H_
#define HEARTH_ENGINE_MODEL_THREAD_COUNT_H_

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

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_THREAD_COUNT_H_
