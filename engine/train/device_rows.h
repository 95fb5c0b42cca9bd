#ifndef HEARTH_ENGINE_TRAIN_DEVICE_ROWS_H_
#define HEARTH_ENGINE_TRAIN_DEVICE_ROWS_H_

#include "absl/status/status.h"

namespace hearth::train {

/// The input rows of a batch, in the memory of a GPU that may still be busy
/// bringing them together. Thread-safe: several models may take them.
class DeviceRows {
 public:
  virtual ~DeviceRows() = default;

  /// Queues in `stream`, a stream of the CUDA runtime on that GPU: a wait until
  /// the rows are there, and a copy of all of them to `to`, memory of that GPU.
  /// The host waits for neither, and the rows may be given up when this
  /// returns. INTERNAL if the device fails, perhaps in earlier work.
  virtual absl::Status QueueCopy(void* stream, float* to) const = 0;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_DEVICE_ROWS_H_
