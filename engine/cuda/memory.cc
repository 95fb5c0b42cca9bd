#include "engine/cuda/memory.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::cuda {

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

}  // namespace hearth::cuda
