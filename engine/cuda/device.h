#ifndef HEARTH_ENGINE_CUDA_DEVICE_H_
#define HEARTH_ENGINE_CUDA_DEVICE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
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

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_DEVICE_H_
