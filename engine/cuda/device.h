#ifndef HEARTH_ENGINE_CUDA_DEVICE_H_
#define HEARTH_ENGINE_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// A GPU, and the functions that reach it. A value; `table` outlives what is
/// made with it.
struct Device {
  const HearthCudaTable* table = nullptr;
  int number = 0;
};

/// The status for `error`, the result of a function of the table: "CUDA device
/// 0: `operation`: out of memory". RESOURCE_EXHAUSTED if memory is short,
/// otherwise INTERNAL; OK for 0.
absl::Status ToStatus(const Device& device, int error,
                      absl::string_view operation);

/// How much memory a device has, in bytes.
struct DeviceMemory {
  /// Memory that no process has allocated.
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

/// INTERNAL if the device fails.
absl::StatusOr<DeviceMemory> MemoryOf(const Device& device);

/// Memory that a device reaches: its own, or pinned memory of the host, which
/// both see at the same address. Not initialized. Given back when destroyed; no
/// queued work may need it then. Thread-compatible; movable.
class Memory {
 public:
  enum class Kind { kDevice, kPinned };

  /// Allocates `bytes`; for 0 bytes the device is not asked.
  /// RESOURCE_EXHAUSTED, naming the size, if there is not as much; INTERNAL if
  /// the device fails.
  static absl::StatusOr<Memory> Allocate(const Device& device, Kind kind,
                                         uint64_t bytes);

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  /// Aligned to 256 bytes, pinned memory to a page. Device memory is nothing
  /// that the host may look at.
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  Memory(const Device& device, Kind kind) : device_(device), kind_(kind) {}

  Device device_;
  Kind kind_ = Kind::kDevice;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

/// Memory of the host that somebody else owns, pinned for as long as this
/// lives, so that a device reaches it as it is. The owner keeps it longer; no
/// queued work may need it when this is destroyed. Thread-compatible; movable.
class Registration {
 public:
  /// Pins `bytes`; for none the device is not asked. RESOURCE_EXHAUSTED or
  /// INTERNAL, naming the size, if that cannot be. REQUIRES: no piece of it is
  /// registered.
  static absl::StatusOr<Registration> Register(
      const Device& device, absl::Span<const std::byte> bytes);

  Registration() = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

 private:
  Device device_;
  void* data_ = nullptr;
};

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_DEVICE_H_
