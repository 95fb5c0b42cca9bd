#include "engine/cuda/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/process.h"
#include "engine/base/status.h"

namespace hearth::cuda {

namespace {

constexpr char kVariable[] = "HEARTH_CUDA_PLUGIN";
constexpr char kFileName[] = "libhearth_cuda.so";

// cudaErrorInsufficientDriver, which the runtime also gives without a driver.
constexpr int kInsufficientDriver = 35;
constexpr char kDriverFile[] = "/proc/driver/nvidia/version";

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
  if (error == kInsufficientDriver && ::access(kDriverFile, F_OK) != 0) {
    return absl::UnavailableError("this machine has no NVIDIA driver");
  }
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

absl::Status ToStatus(const Device& device, int error,
                      absl::string_view operation) {
  if (error == 0) return absl::OkStatus();
  const std::string message =
      absl::StrCat("CUDA device ", device.number, ": ", operation, ": ",
                   device.table->error_text(error));
  return error == HEARTH_CUDA_OUT_OF_MEMORY
             ? absl::ResourceExhaustedError(message)
             : absl::InternalError(message);
}

absl::StatusOr<DeviceMemory> MemoryOf(const Device& device) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  HEARTH_RETURN_IF_ERROR(ToStatus(
      device,
      device.table->memory_info(device.number, &free_bytes, &total_bytes),
      "asking for its free memory"));
  return DeviceMemory{.free_bytes = free_bytes, .total_bytes = total_bytes};
}

absl::StatusOr<Memory> Memory::Allocate(const Device& device, Kind kind,
                                        uint64_t bytes) {
  Memory memory(device, kind);
  if (bytes == 0) return memory;
  const bool pinned = kind == Kind::kPinned;
  const auto allocate =
      pinned ? device.table->allocate_pinned : device.table->allocate;
  void* data = nullptr;
  HEARTH_RETURN_IF_ERROR(
      ToStatus(device, allocate(device.number, bytes, &data),
               absl::StrCat("allocating ", bytes, " bytes of ",
                            pinned ? "pinned host" : "device", " memory")));
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  const auto release = kind_ == Kind::kPinned ? device_.table->release_pinned
                                              : device_.table->release;
  // A destructor cannot report errors; a device that fails shows elsewhere.
  (void)release(device_.number, data_);
}

absl::StatusOr<Registration> Registration::Register(
    const Device& device, absl::Span<const std::byte> bytes) {
  Registration registration;
  if (bytes.empty()) return registration;
  // Nothing writes to the memory; the function asks for a pointer to non-const.
  void* const data = const_cast<std::byte*>(bytes.data());
  HEARTH_RETURN_IF_ERROR(ToStatus(
      device, device.table->host_register(device.number, data, bytes.size()),
      absl::StrCat("pinning ", bytes.size(), " bytes of the host's memory")));
  registration.device_ = device;
  registration.data_ = data;
  return registration;
}

Registration::Registration(Registration&& other) noexcept {
  *this = std::move(other);
}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  return *this;
}

Registration::~Registration() {
  if (data_ == nullptr) return;
  // A destructor cannot report errors.
  (void)device_.table->host_unregister(device_.number, data_);
}

}  // namespace hearth::cuda
