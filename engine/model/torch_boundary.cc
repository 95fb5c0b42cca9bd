#include "engine/model/torch_boundary.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <omp.h>

#include <mutex>
#include <new>

#include "absl/strings/str_cat.h"

// Exported by libtorch_cpu, which contains MKL: the C interface, whose header
// gives it the name in lower case, which here is Fortran's. Returns the setting
// before; 0 stands for the process's setting.
extern "C" int MKL_Set_Num_Threads_Local(int threads);

namespace hearth::model {
namespace {

// at::set_num_threads is the process's; OpenMP and MKL know a thread's own
// setting too. LibTorch reads its number of threads from OpenMP's.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) {
    // LibTorch sets up each thread at its first question, once: ask first, so
    // that it does not undo what follows.
    openmp_before_ = at::get_num_threads();
    omp_set_num_threads(threads);
    mkl_before_ = MKL_Set_Num_Threads_Local(threads);
  }
  ~ThreadCount() {
    omp_set_num_threads(openmp_before_);
    MKL_Set_Num_Threads_Local(mkl_before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int openmp_before_;
  int mkl_before_;
};

// LibTorch's CPU allocator reports exhaustion as a plain Error with this text.
bool IsOutOfMemory(const c10::Error& error) {
  return error.msg().find("DefaultCPUAllocator: ") != std::string::npos ||
         error.msg().find("not enough memory") != std::string::npos;
}

}  // namespace

void SetUpTorch() {
  static std::once_flag once;
  std::call_once(once, [] {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    // Otherwise the line above makes every new tensor be filled first.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  });
}

absl::Status RunTorch(int threads, absl::FunctionRef<absl::Status()> function) {
  try {
    const ThreadCount scope(threads);
    return function();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the model ran out of memory");
  } catch (const c10::Error& error) {
    if (IsOutOfMemory(error)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the model ran out of memory: ", error.msg()));
    }
    return absl::InternalError(absl::StrCat("LibTorch: ", error.msg()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.what()));
  }
}

}  // namespace hearth::model
