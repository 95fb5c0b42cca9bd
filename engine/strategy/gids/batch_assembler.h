#ifndef HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/store/row_format.h"
#include "engine/strategy/gids/constant_buffer.h"
#include "engine/strategy/gids/locator.h"
#include "engine/train/device_rows.h"

namespace hearth::strategy {

/// A batch that is read: where its rows are, and those that were missing.
struct ReadBatch {
  const LocatedRows& rows;
  const ConstantBuffer& buffer;
  /// Rows of rows.missing, as stored, in their order.
  absl::Span<const std::byte> missing;
};

/// Holds the lines of the window cache, brings the rows of a batch together and
/// puts those that the cache keeps into their lines. Batches come in the order
/// in which they were located. Used by one thread at a time.
class BatchAssembler {
 public:
  virtual ~BatchAssembler() = default;

  /// Widens all rows of the batch to where they belong in `out`, [rows of the
  /// batch, dim] float32 in host memory; done when it returns. INTERNAL or
  /// RESOURCE_EXHAUSTED, of a device.
  virtual absl::Status Assemble(const ReadBatch& batch, float* out) = 0;

  /// The same, but the rows stay on the device that has the lines, for models
  /// that train there, and are yet to be there when it returns; the batch is no
  /// longer needed. The assembler and the constant buffer outlive them. Null
  /// from an assembler without a device.
  virtual absl::StatusOr<std::unique_ptr<const train::DeviceRows>>
  AssembleOnDevice(const ReadBatch& /*batch*/) {
    return nullptr;
  }

  /// Gives back what it holds for batches, not the lines. REQUIRES: no rows of
  /// AssembleOnDevice are left.
  virtual void Rest() = 0;
};

/// With lines in host memory. RESOURCE_EXHAUSTED if the system has none.
absl::StatusOr<std::unique_ptr<BatchAssembler>> NewHostAssembler(
    int64_t num_lines, const store::RowFormat& format);

/// With lines in the memory of `device`, which reads rows of constant buffers
/// from host memory as they are (ConstantBuffer::Load pins them) and has copies
/// of the missing rows. Beside the lines it holds there, for the largest batch
/// so far, its missing rows and up to 16 bytes a row; and for as many batches
/// as were assembled at once all rows as float32. RESOURCE_EXHAUSTED, with the
/// size, if the device has no memory; INTERNAL if it fails.
absl::StatusOr<std::unique_ptr<BatchAssembler>> NewDeviceAssembler(
    const cuda::Device& device, int64_t num_lines,
    const store::RowFormat& format);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_BATCH_ASSEMBLER_H_
