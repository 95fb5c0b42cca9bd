#include "engine/cuda/device.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::cuda {

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
  // There is nobody to tell, and a device that fails says so elsewhere.
  (void)release(device_.number, data_);
}

absl::StatusOr<Registration> Registration::Register(
    const Device& device, absl::Span<const std::byte> bytes) {
  Registration registration;
  if (bytes.empty()) return registration;
  // Nothing writes to it; that its owner may is what the function asks for.
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
  // As with Memory, there is nobody to tell.
  (void)device_.table->host_unregister(device_.number, data_);
}

}  // namespace hearth::cuda
