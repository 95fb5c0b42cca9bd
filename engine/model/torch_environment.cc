#include "engine/model/torch_environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "spdlog/spdlog.h"

namespace hearth::model {
namespace {

constexpr const char* kEnvironment[][2] = {
    // Sums in MKL do not depend on where arrays lie.
    {"MKL_CBWR", "AUTO"},
    // The number of threads is what we say, not what MKL thinks best now.
    {"MKL_DYNAMIC", "FALSE"},
    {"OMP_DYNAMIC", "FALSE"},
    // Threads that wait for work sleep: spinning, they would take the cores
    // from the samplers and from other jobs.
    {"OMP_WAIT_POLICY", "PASSIVE"},
    // Operators of oneDNN leave up to 250 KiB for each size in two caches, for
    // as long as the process lives: one of each thread, one of all. The
    // defaults keep 1,024 of each. Products (matrix_product.cc) are not among
    // them.
    {"LRU_CACHE_CAPACITY", "64"},
    {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128"},
    // Products on a GPU repeat bit for bit; LibTorch refuses them without.
    {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"},
};

// Sets what is missing; whether anything was.
bool CompleteEnvironment() {
  bool missing = false;
  for (const auto& [name, value] : kEnvironment) {
    if (getenv(name) != nullptr) continue;
    setenv(name, value, /*overwrite=*/1);
    missing = true;
  }
  return missing;
}

}  // namespace

void EnsureTorchEnvironment(char** argv) {
  if (!CompleteEnvironment()) return;
  // By its own path, not /proc/self/exe, so that the process keeps its name.
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) execv(program.c_str(), argv);
  // MKL reads its variables at its first use, which is yet to come; what is
  // lost without a new start is OpenMP's waiting.
  spdlog::warn("cannot start anew with the environment LibTorch needs: {}",
               strerror(errno));
}

}  // namespace hearth::model
