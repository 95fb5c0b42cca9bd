#include "engine/cuda/device.h"

#include <string>

#include "absl/strings/str_cat.h"

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

}  // namespace hearth::cuda
