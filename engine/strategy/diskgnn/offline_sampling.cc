#include "engine/strategy/diskgnn/offline_sampling.h"

#include <memory>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/pipeline/pipeline.h"
#include "engine/plan/layout/sample_spool.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {
namespace {

absl::Status SamplePass(const OfflineSampling& sampling, const Pass& pass,
                        plan::SampleSpoolWriter& spool,
                        const std::stop_token& stop) {
  const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
  const ShardRange shards = ShardsOf(pass, static_cast<int64_t>(seeds.size()));
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline({SampleStage(pass, seeds, sampling.source,
                                         {.threads = sampling.samplers})},
                            "write", sampling.clock);
  return pipeline->Run(
      shards.count,
      [&](int64_t index) {
        return std::make_unique<SampledBatch>(shards.first + index);
      },
      [&](std::unique_ptr<pipeline::Item> item) {
        return spool.Append(static_cast<SampledBatch&>(*item).sample());
      },
      stop);
}

}  // namespace

absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<plan::SampleSpoolWriter> spool,
      plan::SampleSpoolWriter::Create(sampling.files, sampling.path));
  for (const Pass& pass : passes) {
    HEARTH_RETURN_IF_ERROR(SamplePass(sampling, pass, *spool, stop));
  }
  return spool->Finish();
}

}  // namespace hearth::strategy
