#include "engine/cuda/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/process.h"
#include "engine/base/status.h"

namespace hearth::cuda {
namespace {

constexpr char kVariable[] = "HEARTH_CUDA_PLUGIN";
constexpr char kFileName[] = "libhearth_cuda.so";

absl::Status Unusable(const std::string& path, absl::string_view reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("no GPU can be used: ", path, ": ", reason));
}

}  // namespace

std::string Plugin::DefaultPath() { return LibraryPath(kVariable, kFileName); }

absl::StatusOr<std::unique_ptr<Plugin>> Plugin::Load(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    return Unusable(
        path, absl::StrCat("does not exist; it is built where the CUDA toolkit "
                           "is, and looked for in the folder of the binary and "
                           "in $",
                           kVariable));
  }
  void* const library =
      ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return Unusable(path, LinkerError());
  std::unique_ptr<Plugin> plugin(new Plugin(library));
  const auto get_table = reinterpret_cast<decltype(&hearth_cuda_table)>(
      ::dlsym(library, HEARTH_CUDA_TABLE_SYMBOL));
  if (get_table == nullptr) return Unusable(path, "is no plug-in of Hearth's");
  plugin->table_ = get_table(HEARTH_CUDA_VERSION);
  if (plugin->table_ == nullptr) {
    return Unusable(path, absl::StrCat("has no functions of version ",
                                       HEARTH_CUDA_VERSION));
  }
  if (plugin->table_->table_bytes < sizeof(HearthCudaTable)) {
    return Unusable(path, "is older than this binary and lacks functions");
  }
  return plugin;
}

Plugin::~Plugin() { ::dlclose(library_); }

absl::StatusOr<std::vector<Device>> Plugin::Devices() const {
  int count = 0;
  const int error = table_->device_count(&count);
  if (error != 0 || count == 0) {
    return absl::UnavailableError(absl::StrCat(
        "this machine has no GPU that CUDA can use: ",
        error != 0 ? table_->error_text(error) : "there are 0 devices"));
  }
  std::vector<Device> devices;
  for (int number = 0; number < count; ++number) {
    devices.push_back({.table = table_, .number = number});
  }
  return devices;
}

absl::StatusOr<std::string> Plugin::NameOf(const Device& device) const {
  char name[256] = "";
  HEARTH_RETURN_IF_ERROR(
      ToStatus(device, table_->device_name(device.number, name, sizeof(name)),
               "asking for its name"));
  return std::string(name);
}

}  // namespace hearth::cuda
