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

/// A topology, of one edge type or several, from which a GPU samples (GIDS,
/// section 3.5): its arrays stay pinned in the host's memory, and kernels read
/// the drawn entries over the bus. Batches equal those of NewNeighborSampler
/// and NewTypedSampler in every bit. Keeps the memory of finished samplers for
/// the next ones. Thread-safe.
class DeviceTopology {
 public:
  /// Pins the arrays of `relations` (of a store::LoadedTopology: in memory, not
  /// mapped). `relations` and their arrays must outlive the topology. Errors of
  /// cuda::Registration.
  static absl::StatusOr<std::unique_ptr<DeviceTopology>> Register(
      const cuda::Device& device, absl::Span<const store::Relation> relations,
      const store::NodeSpace& nodes);
  DeviceTopology(const DeviceTopology&) = delete;
  DeviceTopology& operator=(const DeviceTopology&) = delete;

  /// A sampler, which the topology must outlive. It reserves device memory for
  /// batches of shape `largest` with its first batch, and more for a batch that
  /// is larger; an empty `largest` reserves nothing. Sample fails as
  /// NewNeighborSampler's does, and with INTERNAL where the device fails or
  /// RESOURCE_EXHAUSTED where it has too little memory. REQUIRES: no
  /// layer_nodes, and not `once`.
  std::unique_ptr<NeighborSampler> NewSampler(NeighborSamplerOptions options,
                                              BatchShape largest);

  /// Frees the device memory that no sampler uses now.
  void Rest() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Device memory of a sampler of batches no larger than `largest`, of a graph
  /// of this size.
  static uint64_t DeviceBytes(const BatchShape& largest,
                              const DeviceGraphSize& graph);

 private:
  friend class DeviceSampler;

  DeviceTopology(const cuda::Device& device,
                 absl::Span<const store::Relation> relations,
                 const store::NodeSpace& nodes);

  // A workspace for samplers of a graph with these sizes.
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
