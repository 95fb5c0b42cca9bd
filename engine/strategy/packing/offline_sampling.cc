#include "engine/strategy/packing/offline_sampling.h"

#include <memory>
#include <utility>
#include <variant>

#include "engine/base/status.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/slab_sampler.h"
#include "engine/sample/slab_topology.h"
#include "engine/strategy/packing/sample_spool.h"

namespace hearth::strategy {

namespace {

// Bytes that the spool reserves at a time.
constexpr uint64_t kReservedAtOnce = uint64_t{1} << 20;

}  // namespace

absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           absl::Span<const ShardPick> picks,
                           std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SampleSpoolWriter> spool,
      SampleSpoolWriter::Create(sampling.files, sampling.path));
  OfflineSource source = sampling.source;
  if (auto* const slabs = std::get_if<SlabSource>(&source)) {
    slabs->reserve = sampling.reserve;
  }
  // The size up to which the spool has reserved bytes.
  uint64_t reserved = 0;
  HEARTH_RETURN_IF_ERROR(SampleShards(
      {.clock = sampling.clock,
       .source = std::move(source),
       .samplers = sampling.samplers,
       .progress = sampling.progress,
       .with_histories = true},
      passes, picks,
      [&](const ShardPick& /*pick*/,
          const sample::MiniBatch& batch) -> absl::Status {
        if (sampling.reserve && spool->size_bytes() >= reserved) {
          HEARTH_RETURN_IF_ERROR(sampling.reserve(kReservedAtOnce));
          reserved = spool->size_bytes() + kReservedAtOnce;
        }
        return spool->Append(batch);
      },
      std::move(stop)));
  return spool->Finish();
}

absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           std::stop_token stop) {
  return SampleOffline(sampling, passes, SpreadOver(passes, INT64_MAX),
                       std::move(stop));
}

uint64_t OfflineTopologyBytes(const MemoryBasis& basis, int64_t num_batches) {
  if (basis.pipeline.topology != TopologyPlace::kSlabs) {
    return basis.sampled_topology_bytes();
  }
  return sample::SlabSamplingBytes(
      {.manifest = basis.manifest,
       .slab_bytes = sample::SlabTopology::SlabBytes(basis.manifest),
       .samplers = basis.pipeline.samplers,
       .num_shards = num_batches * basis.shards,
       // The largest shard bounds the scratch memory.
       .shard = basis.batches.WithMargin()});
}

int OfflineSamples(const MemoryBasis& basis) {
  const int each = basis.pipeline.topology == TopologyPlace::kSlabs ? 2 : 1;
  return each * basis.pipeline.samplers + 3 * basis.shards;
}

}  // namespace hearth::strategy
