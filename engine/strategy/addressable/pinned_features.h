#ifndef HEARTH_ENGINE_STRATEGY_ADDRESSABLE_PINNED_FEATURES_H_
#define HEARTH_ENGINE_STRATEGY_ADDRESSABLE_PINNED_FEATURES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/device_rooms.h"
#include "engine/train/device_rows.h"

namespace hearth::strategy {

/// Features in the host's memory, pinned, of which a GPU gathers the rows of
/// batches over its bus, into rooms of its own memory. Used by one thread at a
/// time.
class PinnedFeatures {
 public:
  /// Pins `features`, of one table in memory, which outlive this. Errors of
  /// cuda::Registration.
  static absl::StatusOr<std::unique_ptr<PinnedFeatures>> Register(
      const cuda::Device& device, const store::LoadedFeatures& features);

  PinnedFeatures(const PinnedFeatures&) = delete;
  PinnedFeatures& operator=(const PinnedFeatures&) = delete;

  /// Queues a gather of the rows of `nodes`, which stay until the rows are
  /// destroyed; that waits for it. RESOURCE_EXHAUSTED if the device has no
  /// memory; INTERNAL if it fails.
  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> Gather(
      absl::Span<const store::NodeId> nodes);

  /// Gives back what it holds of the device's memory. REQUIRES: no rows are
  /// left.
  void Rest();

  /// Device memory at most: rows of float32 in `rooms` batches of up to `rows`
  /// rows of `dim` columns, and the list of which rows they are.
  static uint64_t DeviceBytes(int64_t rows, int64_t dim, int rooms);

 private:
  PinnedFeatures(const cuda::Device& device,
                 const store::LoadedFeatures& features)
      : device_(device), features_(features), rooms_(device) {}

  absl::Status Queue(absl::Span<const store::NodeId> nodes, std::byte* out);

  const cuda::Device device_;
  const store::LoadedFeatures& features_;
  cuda::Registration pinned_;
  // The nodes of the batch that was queued last, on the device.
  cuda::Memory nodes_;
  // Destroyed before all memory that its work refers to, which waits, and after
  // the rooms, whose readers wait for its work.
  std::unique_ptr<cuda::Stream> stream_;
  DeviceRooms rooms_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_ADDRESSABLE_PINNED_FEATURES_H_
