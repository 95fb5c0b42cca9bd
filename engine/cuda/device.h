#ifndef HEARTH_ENGINE_CUDA_DEVICE_H_
#define HEARTH_ENGINE_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// A GPU: its number, and the plug-in's functions. A value; `table` outlives
/// everything made with it.
struct Device {
  const HearthCudaTable* table = nullptr;
  int number = 0;
};

/// The loaded plug-in, libhearth_cuda.so. Outlives its devices. Thread-safe.
class Plugin {
 public:
  /// Value of the environment variable HEARTH_CUDA_PLUGIN, or else
  /// libhearth_cuda.so in the folder of the running binary.
  static std::string DefaultPath();

  /// FAILED_PRECONDITION, naming the file, if it does not exist, cannot be
  /// loaded, or is not a plug-in of this version.
  static absl::StatusOr<std::unique_ptr<Plugin>> Load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  /// The library stays in the process: the driver's state in it cannot be
  /// undone.
  ~Plugin();

  /// All devices, in the order of their numbers, at least one. UNAVAILABLE,
  /// saying why, if the machine has no driver or no GPU.
  absl::StatusOr<std::vector<Device>> Devices() const;

  /// The GPU's product name.
  absl::StatusOr<std::string> NameOf(const Device& device) const;

 private:
  explicit Plugin(void* library) : library_(library) {}

  void* const library_;
  const HearthCudaTable* table_ = nullptr;
};

/// Status for `error`, the result of a function of the table: "CUDA device 0:
/// `operation`: out of memory". RESOURCE_EXHAUSTED if memory is short,
/// otherwise INTERNAL; OK for 0.
absl::Status ToStatus(const Device& device, int error,
                      absl::string_view operation);

/// Memory of a device.
struct DeviceMemory {
  /// Memory that no process has allocated.
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

/// INTERNAL if the device fails.
absl::StatusOr<DeviceMemory> MemoryOf(const Device& device);

/// Memory for a device: device memory, or pinned host memory, which host and
/// device see at the same address. Not initialized. Freed when destroyed; no
/// queued work may need it then. Thread-compatible; movable.
class Memory {
 public:
  enum class Kind { kDevice, kPinned };

  /// Allocates `bytes`; for 0 bytes the device is not asked.
  /// RESOURCE_EXHAUSTED, naming the size, if memory is short; INTERNAL if the
  /// device fails.
  static absl::StatusOr<Memory> Allocate(const Device& device, Kind kind,
                                         uint64_t bytes);

  Memory() = default;
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  /// Aligned to 256 bytes, pinned memory to a page. The host must not access
  /// device memory.
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  Memory(const Device& device, Kind kind) : device_(device), kind_(kind) {}

  Device device_;
  Kind kind_ = Kind::kDevice;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

/// Pins host memory that somebody else owns for as long as this exists, so that
/// a device reaches it in place. The memory must outlive this; no queued work
/// may need it when this is destroyed. Thread-compatible; movable.
class Registration {
 public:
  /// Pins `bytes`; if empty, the device is not asked. RESOURCE_EXHAUSTED or
  /// INTERNAL, naming the size, on failure. REQUIRES: no part of `bytes` is
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
