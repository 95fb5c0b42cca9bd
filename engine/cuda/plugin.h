#ifndef HEARTH_ENGINE_CUDA_PLUGIN_H_
#define HEARTH_ENGINE_CUDA_PLUGIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// libhearth_cuda.so, loaded. Outlives its devices. Thread-safe.
class Plugin {
 public:
  /// The path in the environment variable HEARTH_CUDA_PLUGIN; without one,
  /// libhearth_cuda.so beside the binary that runs.
  static std::string DefaultPath();

  /// FAILED_PRECONDITION, naming the file, if it is not there, cannot be
  /// loaded, or is not a plug-in of this version.
  static absl::StatusOr<std::unique_ptr<Plugin>> Load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  /// The library itself stays in the process: what the driver has begun in it
  /// cannot be undone.
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

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_PLUGIN_H_
