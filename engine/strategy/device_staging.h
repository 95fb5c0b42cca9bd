#ifndef HEARTH_ENGINE_STRATEGY_DEVICE_STAGING_H_
#define HEARTH_ENGINE_STRATEGY_DEVICE_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/store/dtype.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

/// The element type of kernels for `dtype`, that of features.
HearthCudaElement CudaElement(store::DType dtype);

/// The part of a device's memory in which a batch has what a scatter needs of
/// the host: lists, and rows that were read for it. Batches follow each other
/// in one stream, so that all share it; it grows with the largest. Used by one
/// thread at a time.
class DeviceStaging {
 public:
  /// Bytes of the host, and where they lie in the area.
  struct Block {
    const void* host = nullptr;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };

  /// One part of a scatter (HearthCudaScatterPart).
  struct Part {
    /// The rows, where the device reaches them as they are; null: `copied` are
    /// copied there. All of them in their order if there are no `slots`.
    const std::byte* rows = nullptr;
    Block copied = {};
    Block slots = {};
    Block positions = {};
  };

  explicit DeviceStaging(const cuda::Device& device) : device_(device) {}
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  /// Begins a batch, of which nothing has been added.
  void Begin();

  /// Adds the part of rows that the device reaches: row slots[i] of `rows` is
  /// for position positions[i].
  Part AddReached(const std::byte* rows, absl::Span<const int64_t> slots,
                  absl::Span<const int32_t> positions);

  /// Adds the part of rows that are copied: row i is for position positions[i].
  Part AddCopied(absl::Span<const std::byte> rows,
                 absl::Span<const int32_t> positions);

  /// Adds the part of some rows of `copied`, a part that was added: its row
  /// slots[i] is for position positions[i].
  Part AddRowsOf(const Part& copied, absl::Span<const int64_t> slots,
                 absl::Span<const int32_t> positions);

  /// Queues the copies of all that was added, which stays as it is until they
  /// are done. An area that is too small is given back first, once all that
  /// `stream` has is done. RESOURCE_EXHAUSTED if the device has no memory;
  /// INTERNAL if it fails.
  absl::Status QueueCopies(cuda::Stream& stream);

  /// A part as a kernel takes it. REQUIRES: QueueCopies since it was added.
  HearthCudaScatterPart At(const Part& part) const;

  /// Gives the area back. REQUIRES: nothing is queued that uses it.
  void Clear() { memory_ = {}; }

 private:
  template <typename T>
  Block Add(absl::Span<const T> values);
  template <typename T>
  const T* Copied(const Block& block) const;

  const cuda::Device device_;
  cuda::Memory memory_;
  // Those of the batch that was begun last.
  std::vector<Block> blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DEVICE_STAGING_H_
