#include "engine/model/runtime/torch_boundary.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/model/runtime/buffer_pool.h"

// A function of LibTorch's libgomp. It is declared here because this file is
// compiled without OpenMP, and clang comes without its header.

extern "C" void omp_set_num_threads(int threads);

// Exported by libtorch_cpu, which contains MKL. MKL's C header declares it in
// lower case; here that name is Fortran's. Returns the previous setting of this
// thread; 0 stands for the process's setting.
extern "C" int MKL_Set_Num_Threads_Local(int threads);

namespace hearth::model {

// OpenMP and MKL have settings per thread; LibTorch and oneDNN ask OpenMP.
// LibTorch initializes each thread when first asked, so the constructor asks
// before it sets, to not lose the setting.
ThreadCount::ThreadCount(int threads) : openmp_before_(at::get_num_threads()) {
  omp_set_num_threads(threads);
  mkl_before_ = MKL_Set_Num_Threads_Local(threads);
}

ThreadCount::~ThreadCount() {
  omp_set_num_threads(openmp_before_);
  MKL_Set_Num_Threads_Local(mkl_before_);
}

}  // namespace hearth::model

namespace hearth::model {

namespace {

// Never destroyed, because LibTorch may free a tensor after main.
BufferPool& Pool() {
  static auto* const pool = new BufferPool;
  return *pool;
}

// LibTorch's allocator of memory from the pool.
class PooledAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const buffer = bytes == 0 ? nullptr : Pool().Allocate(bytes);
    return {buffer, buffer, &Free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void Free(void* buffer) { Pool().Free(buffer); }
};

}  // namespace

void SetUpTorch() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetCPUAllocator(new PooledAllocator);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    // Without this, the line above makes LibTorch fill every new tensor.
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  });
}

absl::Status RunTorch(int threads, absl::FunctionRef<absl::Status()> function) {
  try {
    SetUpTorch();
    const ThreadCount scope(threads);
    return function();
  } catch (const std::bad_alloc&) {
    Pool().Clear();
    return absl::ResourceExhaustedError("the model ran out of memory");
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the model ran out of memory: ", error.msg()));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.msg()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.what()));
  }
}

void EndTorchStep() { Pool().Trim(); }

void ReleaseStepMemory() { Pool().ReleaseIdle(); }

TorchMemory::~TorchMemory() { Pool().Clear(); }

}  // namespace hearth::model
