#include "engine/model/gpu_torch.h"

#include <dlfcn.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/base/shared_library.h"

namespace hearth::model {
namespace {

constexpr char kVariable[] = "HEARTH_TORCH_CUDA";
constexpr char kFile[] = "torch_cuda/torch/lib/libtorch_cuda.so";
constexpr char kDriver[] = "libcuda.so.1";

}  // namespace

std::string GpuTorchPath() { return LibraryPath(kVariable, kFile); }

absl::Status LoadGpuTorch(const std::string& path) {
  void* const driver = ::dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no NVIDIA driver: ", LinkerError()));
  }
  ::dlclose(driver);
  if (::access(path.c_str(), F_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " does not exist; it is looked for in the folder of the binary and "
        "in $",
        kVariable));
  }
  // Its registrations with LibTorch last until the process ends.
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) ==
      nullptr) {
    return absl::FailedPreconditionError(LinkerError());
  }
  return absl::OkStatus();
}

}  // namespace hearth::model
