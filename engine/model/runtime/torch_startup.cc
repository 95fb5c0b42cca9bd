#include "engine/model/runtime/torch_startup.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iterator>

#include "absl/strings/str_cat.h"
#include "engine/base/process.h"
#include "spdlog/spdlog.h"

namespace hearth::model {

namespace {

constexpr const char* kEnvironment[] = {
    // Sums in MKL must not depend on addresses.
    "MKL_CBWR=AUTO",
    // The number of threads is the one we set, not the one MKL prefers.
    "MKL_DYNAMIC=FALSE",
    "OMP_DYNAMIC=FALSE",
    // Waiting threads sleep: spinning, they would take cores from samplers and
    // other jobs.
    "OMP_WAIT_POLICY=PASSIVE",
    // Operators of oneDNN keep up to 250 KiB for each size in two caches, one
    // per thread and one per process, as long as the process lives; the
    // defaults keep 1,024 sizes in each. Products (matrix_product.cc) are not
    // kept there.
    "LRU_CACHE_CAPACITY=64",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY=128",
    // Products on a GPU must repeat bit for bit; LibTorch refuses them without
    // this.
    "CUBLAS_WORKSPACE_CONFIG=:4096:8",
};

// Upper bound of the variables; a program with more is not restarted.
constexpr size_t kMostVariables = 4000;

// Whether `environment`, which ends with null, has the variable of `entry`,
// which is NAME=VALUE.
bool HasVariable(char** environment, const char* entry) {
  const size_t name_length = strchr(entry, '=') + 1 - entry;
  for (; *environment != nullptr; ++environment) {
    if (strncmp(*environment, entry, name_length) == 0) return true;
  }
  return false;
}

}  // namespace

void StartWithTorchEnvironment(char** argv, char** environment) {
  char* complete[kMostVariables + std::size(kEnvironment) + 1];
  size_t count = 0;
  while (environment[count] != nullptr) {
    if (count == kMostVariables) {
      errno = E2BIG;
      return;
    }
    complete[count] = environment[count];
    ++count;
  }
  const size_t given = count;
  for (const char* entry : kEnvironment) {
    if (HasVariable(environment, entry)) continue;
    complete[count++] = const_cast<char*>(entry);
  }
  if (count == given) return;
  complete[count] = nullptr;
  // The program's own path instead of /proc/self/exe keeps the process's name.
  char program[PATH_MAX];
  const ssize_t length =
      readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length < 0) return;
  program[length] = '\0';
  execve(program, argv, complete);
}

void EnsureTorchEnvironment(char** argv) {
  StartWithTorchEnvironment(argv, environ);
  // MKL has not read its variables yet; only OpenMP's way of waiting is lost
  // without a restart.
  bool missing = false;
  for (const char* entry : kEnvironment) {
    if (HasVariable(environ, entry)) continue;
    putenv(const_cast<char*>(entry));
    missing = true;
  }
  if (missing) {
    spdlog::warn("cannot restart with the environment that LibTorch needs: {}",
                 strerror(errno));
  }
}

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
  // The library's registrations with LibTorch last until the process ends.
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) ==
      nullptr) {
    return absl::FailedPreconditionError(LinkerError());
  }
  return absl::OkStatus();
}

}  // namespace hearth::model
