#include "engine/model/thread_count.h"

#include <ATen/Parallel.h>

// A function of LibTorch's libgomp. It is declared here because this file is
// compiled without OpenMP, and clang comes without its header.
extern "C" void omp_set_num_threads(int threads);

// Exported by libtorch_cpu, which contains MKL: the C interface, whose header
// gives it the name in lower case, which here is Fortran's. Returns the setting
// before; 0 stands for the process's setting.
extern "C" int MKL_Set_Num_Threads_Local(int threads);

namespace hearth::model {

// OpenMP and MKL know a thread's own setting; LibTorch and oneDNN ask OpenMP.
// LibTorch sets up each thread when first asked, once: ask before setting, so
// that it does not undo it.
ThreadCount::ThreadCount(int threads) : openmp_before_(at::get_num_threads()) {
  omp_set_num_threads(threads);
  mkl_before_ = MKL_Set_Num_Threads_Local(threads);
}

ThreadCount::~ThreadCount() {
  omp_set_num_threads(openmp_before_);
  MKL_Set_Num_Threads_Local(mkl_before_);
}

}  // namespace hearth::model
