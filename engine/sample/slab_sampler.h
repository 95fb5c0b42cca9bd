#ifndef HEARTH_ENGINE_SAMPLE_SLAB_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_SLAB_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/slab_topology.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"

/// Sampling of many batches together from a topology that does not fit into
/// memory (SampleInSlabs).

namespace hearth::sample {

/// How the shards of a pass are sampled.
struct SlabPass {
  NeighborSamplerOptions sampler;
  /// Decides which embeddings come from earlier batches; null = none do.
  /// Outlives the call.
  const HistoryPolicy* history = nullptr;
};

/// One shard of a batch.
struct SlabShard {
  /// Index of its pass among the passes.
  size_t pass = 0;
  BatchKey key;
  /// False: only its top layer is sampled, since it decides what later shards
  /// pull. REQUIRES: then the pass has a history.
  bool wanted = true;
};

/// What shards are sampled with. Outlives the call.
struct SlabSampling {
  io::FileSystem& files;
  const SlabTopology& topology;
  const Clock& clock;
  /// Threads that draw; one more reads.
  int samplers = 1;
  /// A folder, in an existing one, that is made and removed.
  std::string scratch_folder;
  /// Called before `bytes` more bytes are written; by one thread at a time. May
  /// be empty.
  std::function<absl::Status(uint64_t bytes)> reserve = nullptr;
  /// Called with units of work done and in all, on the caller's thread. May be
  /// empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// Samples all `shards` hop by hop: in each hop, every slab of the topology is
/// read at most once, in order, and serves all shards (hyperbatches: AGNES,
/// "Accelerating Storage-Based Training for Graph Neural Networks", KDD 2026,
/// section 4). Then calls `take` with each wanted shard, in order, on the
/// caller's thread. The batches equal those of NewNeighborSampler or
/// NewTypedSampler, since a draw depends on no other draw. Shards of a pass
/// stand together, in the order of their numbers.
///
/// Everything that grows with the number of shards is in scratch files: nodes
/// that draw, dispatched to their slabs; the neighbors that they drew; the
/// batches so far. Memory: SlabSamplingBytes.
///
/// `seeds` is called once for each shard, in order. Errors: DATA_LOSS, naming
/// file and offset, for damage in the topology or in a scratch file;
/// RESOURCE_EXHAUSTED if the disk is full; CANCELLED when `stop` is requested;
/// errors of `reserve` and `take`. No file is left.
absl::Status SampleInSlabs(
    const SlabSampling& sampling, absl::Span<const SlabPass> passes,
    absl::Span<const SlabShard> shards,
    absl::FunctionRef<std::vector<store::NodeId>(size_t shard)> seeds,
    absl::FunctionRef<absl::Status(size_t shard, const MiniBatch& batch)> take,
    std::stop_token stop);

/// What the memory of sampling in slabs depends on.
struct SlabSamplingBound {
  const store::Manifest& manifest;
  uint64_t slab_bytes = 0;
  int samplers = 1;
  int64_t num_shards = 0;
  /// The largest shard.
  BatchShape shard;
};

/// The most memory of SampleInSlabs and its topology. Apart from it: for each
/// sampler BatchShape::SamplerBytes and twice the memory of a shard, two shards
/// on the way to `take`, and decisions about a history.
uint64_t SlabSamplingBytes(const SlabSamplingBound& bound);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SLAB_SAMPLER_H_
