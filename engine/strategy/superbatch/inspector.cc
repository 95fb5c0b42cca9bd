#include "engine/strategy/superbatch/inspector.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/stored_sampler.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/superbatch/queued_reader.h"

// The work beside the sampling runs in the sink, which is called on this thread
// as soon as the first batch is sampled. The queue before it has room for the
// whole superbatch, so that no sampler ever waits for it.

namespace hearth::strategy {
namespace {

// The number of a batch; its sample goes to a file at once.
class NumberItem final : public pipeline::Item {
 public:
  explicit NumberItem(int64_t number) : number_(number) {}
  int64_t number() const { return number_; }

 private:
  const int64_t number_;
};

}  // namespace

/// The sampler of one thread.
class Inspector::Sampler {
 public:
  static absl::StatusOr<std::unique_ptr<Sampler>> Make(
      const InspectorContext& context, const sample::NeighborCache& neighbors,
      std::stop_token stop) {
    HEARTH_ASSIGN_OR_RETURN(
        QueuedReader reader,
        QueuedReader::Open(context.read_queues, context.io_depth,
                           *context.data.stored.indices,
                           context.data.stored.layout, context.clock));
    std::unique_ptr<Sampler> made(new Sampler(std::move(reader)));
    made->sampler_ =
        sample::NewStoredNeighborSampler({.topology = context.data.topology,
                                          .cache = neighbors,
                                          .reader = made->reader_.reader(),
                                          .tally = made->tally_,
                                          .stop = std::move(stop)},
                                         context.pass.sampler);
    return made;
  }

  sample::NeighborSampler& sampler() { return *sampler_; }
  const io::ReadTally& tally() const { return tally_; }

 private:
  explicit Sampler(QueuedReader reader) : reader_(std::move(reader)) {}

  QueuedReader reader_;
  io::ReadTally tally_;
  std::unique_ptr<sample::NeighborSampler> sampler_;
};

absl::Status Inspector::Sample(
    const Superbatch& superbatch, const sample::NeighborCache& neighbors,
    std::stop_token stop,
    const std::function<absl::Status(std::stop_token)>& beside) {
  if (superbatch.count == 0) return beside(std::move(stop));
  std::stop_source abandon;
  std::vector<std::unique_ptr<Sampler>> samplers;
  for (int i = 0; i < context_.samplers; ++i) {
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<Sampler> sampler,
        Sampler::Make(context_, neighbors, abandon.get_token()));
    samplers.push_back(std::move(sampler));
  }
  pipeline::Stage stage = {.name = "sample",
                           .width = context_.samplers,
                           .queue_capacity = static_cast<int>(superbatch.count),
                           .work =
                               [&](int thread, pipeline::Item& item) {
                                 return SampleBatch(
                                     samplers[thread]->sampler(),
                                     static_cast<NumberItem&>(item).number());
                               },
                           .interrupt = [&] { abandon.request_stop(); }};
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline({std::move(stage)}, "beside", context_.clock);
  const double start = context_.clock.SteadySeconds();
  bool begun = false;
  const absl::Status status = pipeline->Run(
      superbatch.count,
      [&](int64_t number) {
        return std::make_unique<NumberItem>(superbatch.first + number);
      },
      [&](std::unique_ptr<pipeline::Item>) {
        if (std::exchange(begun, true)) return absl::OkStatus();
        return beside(abandon.get_token());
      },
      std::move(stop));
  AddStage(pipeline->Stats().front());
  absl::MutexLock lock(&mutex_);
  seconds_ += std::max(0.0, last_sampled_ - start);
  for (const auto& sampler : samplers) {
    tally_.rows += sampler->tally().rows;
    tally_.payload_bytes += sampler->tally().payload_bytes;
    tally_.bytes_read += sampler->tally().bytes_read;
    tally_.requests += sampler->tally().requests;
    tally_.wait_seconds += sampler->tally().wait_seconds;
  }
  return status;
}

absl::Status Inspector::SampleBatch(sample::NeighborSampler& sampler,
                                    int64_t number) {
  HEARTH_ASSIGN_OR_RETURN(
      const sample::MiniBatch batch,
      sampler.Sample(KeyOfShard(context_.pass, number),
                     ShardSeeds(context_.pass, context_.seeds, number)));
  HEARTH_ASSIGN_OR_RETURN(const uint64_t bytes,
                          context_.files.WriteSample(number, batch));
  const double now = context_.clock.SteadySeconds();
  absl::MutexLock lock(&mutex_);
  ++profile_.batches;
  profile_.file_bytes += bytes;
  profile_.rows += static_cast<int64_t>(batch.input_nodes.size());
  last_sampled_ = std::max(last_sampled_, now);
  return absl::OkStatus();
}

void Inspector::AddStage(const pipeline::StageStats& stage) {
  stage_.threads = stage.threads;
  stage_.busy_seconds += stage.busy_seconds;
  stage_.starved_seconds += stage.starved_seconds;
  stage_.blocked_seconds += stage.blocked_seconds;
  stage_.items += stage.items;
}

SuperbatchProfile Inspector::profile() const {
  absl::MutexLock lock(&mutex_);
  return profile_;
}

io::ReadTally Inspector::tally() const {
  absl::MutexLock lock(&mutex_);
  return tally_;
}

}  // namespace hearth::strategy
