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

// Room is made for so much at a time.
constexpr uint64_t kRoomBytes = uint64_t{1} << 20;

class Sampling {
 public:
  Sampling(const OfflineSampling& context, absl::Span<const Pass> passes,
           plan::SampleSpoolWriter& spool)
      : context_(context), passes_(passes), spool_(spool) {}

  absl::Status Run(const std::stop_token& stop) {
    for (const Pass& pass : passes_) {
      total_ += static_cast<uint64_t>(
          ShardsOf(pass, std::ssize(pass.order->Epoch(pass.epoch_key))).count);
    }
    for (const Pass& pass : passes_) {
      HEARTH_RETURN_IF_ERROR(SamplePass(pass, stop));
    }
    return spool_.Finish();
  }

 private:
  absl::Status SamplePass(const Pass& pass, const std::stop_token& stop) {
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    const ShardRange shards = ShardsOf(pass, std::ssize(seeds));
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline({SampleStage(pass, seeds, context_.source,
                                           {.threads = context_.samplers})},
                              "write", context_.clock);
    return pipeline->Run(
        shards.count,
        [&](int64_t index) {
          return std::make_unique<SampledBatch>(shards.first + index);
        },
        [&](std::unique_ptr<pipeline::Item> item) {
          return Write(static_cast<SampledBatch&>(*item).sample());
        },
        stop);
  }

  absl::Status Write(const sample::MiniBatch& batch) {
    if (spool_.size_bytes() >= room_) {
      HEARTH_RETURN_IF_ERROR(context_.make_room(kRoomBytes));
      room_ = spool_.size_bytes() + kRoomBytes;
    }
    HEARTH_RETURN_IF_ERROR(spool_.Append(batch));
    if (context_.progress) context_.progress(++done_, total_);
    return absl::OkStatus();
  }

  const OfflineSampling& context_;
  const absl::Span<const Pass> passes_;
  plan::SampleSpoolWriter& spool_;
  // What the spool may grow to, about.
  uint64_t room_ = 0;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<plan::SampleSpoolWriter> spool,
      plan::SampleSpoolWriter::Create(sampling.files, sampling.path));
  return Sampling(sampling, passes, *spool).Run(stop);
}

}  // namespace hearth::strategy
