#ifndef HEARTH_ENGINE_SAMPLE_DEVICE_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_DEVICE_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/device_workspace.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// A topology, of one edge type or several, that a GPU samples from (GIDS,
/// section 3.5): its arrays stay in the host's memory, pinned, and kernels read
/// of them what they draw, over the bus. Batches are those of
/// NewNeighborSampler and of NewTypedSampler, bit for bit. Keeps the memory of
/// its samplers for the next ones. Thread-safe.
class DeviceTopology {
 public:
  /// Pins the arrays of `relations`, those of store::LoadedTopology, which lie
  /// in memory, not mapped, and outlive this as the relations do. Errors of
  /// cuda::Registration.
  static absl::StatusOr<std::unique_ptr<DeviceTopology>> Register(
      const cuda::Device& device, absl::Span<const store::Relation> relations,
      const store::NodeSpace& nodes);
  DeviceTopology(const DeviceTopology&) = delete;
  DeviceTopology& operator=(const DeviceTopology&) = delete;

  /// A sampler, which does not outlive this. It has memory for batches of the
  /// shape `largest` from its first one on, and takes more for one that is
  /// larger; an empty shape says nothing. Samples fail, besides as
  /// NewNeighborSampler's do, where the device fails (INTERNAL) or has too
  /// little memory (RESOURCE_EXHAUSTED). REQUIRES: no layer_nodes.
  std::unique_ptr<NeighborSampler> NewSampler(NeighborSamplerOptions options,
                                              BatchShape largest);

  /// Gives back the device memory that no sampler uses now.
  void Rest() ABSL_LOCKS_EXCLUDED(mutex_);

  /// The device memory of a sampler of batches that are at most as large as
  /// `largest`, of a graph of that size.
  static uint64_t DeviceBytes(const BatchShape& largest,
                              const DeviceGraphSize& graph);

 private:
  friend class DeviceSampler;

  DeviceTopology(const cuda::Device& device,
                 absl::Span<const store::Relation> relations,
                 const store::NodeSpace& nodes);

  // One for samplers of this graph.
  absl::StatusOr<std::unique_ptr<DeviceWorkspace>> TakeWorkspace(
      const DeviceCapacity& graph) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnWorkspace(std::unique_ptr<DeviceWorkspace> workspace)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const cuda::Device device_;
  const absl::Span<const store::Relation> relations_;
  const store::NodeSpace nodes_;
  // The arrays of all relations.
  std::vector<cuda::Registration> pinned_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<DeviceWorkspace>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_DEVICE_SAMPLER_H_
