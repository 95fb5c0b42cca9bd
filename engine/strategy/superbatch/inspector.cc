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

// A shard, by its number, and the lists that its batch holds; its sample goes
// to a file at once.
class NumberItem final : public pipeline::Item {
 public:
  explicit NumberItem(int64_t number) : number_(number) {}
  int64_t number() const { return number_; }

  sample::BatchLists lists;

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
                                          .batch_lists = made->batch_lists_,
                                          .reader = made->reader_.reader(),
                                          .tally = made->tally_,
                                          .lists = made->lists_,
                                          .stop = std::move(stop)},
                                         context.pass.sampler);
    return made;
  }

  sample::NeighborSampler& sampler() { return *sampler_; }
  const io::ReadTally& tally() const { return tally_; }
  const sample::ListTally& lists() const { return lists_; }

  // Exchanges the lists that the next batch draws from.
  void Hold(sample::BatchLists lists) { batch_lists_ = std::move(lists); }

 private:
  explicit Sampler(QueuedReader reader) : reader_(std::move(reader)) {}

  QueuedReader reader_;
  sample::BatchLists batch_lists_;
  io::ReadTally tally_;
  sample::ListTally lists_;
  std::unique_ptr<sample::NeighborSampler> sampler_;
};

Inspector::Inspector(const InspectorContext& context) : context_(context) {
  if (context.lists != nullptr) stages_.push_back({.name = "lists"});
  stages_.push_back({.name = "sample"});
}

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
  std::unique_ptr<ListFeed> feed;
  std::vector<pipeline::Stage> stages;
  if (context_.lists != nullptr) {
    feed = context_.lists->NewFeed(context_.pass);
    stages.push_back(ListStage(*feed, superbatch.count));
  }
  stages.push_back({.name = "sample",
                    .width = context_.samplers,
                    .queue_capacity = static_cast<int>(superbatch.count),
                    .work =
                        [&](int thread, pipeline::Item& item) {
                          auto& shard = static_cast<NumberItem&>(item);
                          Sampler& own = *samplers[thread];
                          own.Hold(std::move(shard.lists));
                          const absl::Status status =
                              SampleBatch(own.sampler(), shard.number());
                          own.Hold({});
                          return status;
                        },
                    .interrupt = [&] { abandon.request_stop(); }});
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline(std::move(stages), "beside", context_.clock);
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
  AddStages(pipeline->Stats());
  absl::MutexLock lock(&mutex_);
  seconds_ += std::max(0.0, last_sampled_ - start);
  for (const auto& sampler : samplers) AddTallies(*sampler);
  if (feed != nullptr) Add(feed->tally());
  return status;
}

// Its items wait for the samplers in any number: they hold no more than the
// feed gives.
pipeline::Stage Inspector::ListStage(ListFeed& feed, int64_t count) const {
  return {.name = "lists",
          .queue_capacity = static_cast<int>(count),
          .work = [&feed, shards = context_.pass.shards](
                      int /*thread*/, pipeline::Item& item) -> absl::Status {
            auto& shard = static_cast<NumberItem&>(item);
            HEARTH_ASSIGN_OR_RETURN(shard.lists,
                                    feed.Take(shard.number() / shards));
            return absl::OkStatus();
          },
          .interrupt = [&feed] { feed.Interrupt(); }};
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

// The last of `stages` is the sink's.
void Inspector::AddStages(const std::vector<pipeline::StageStats>& stages) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i].threads = stages[i].threads;
    stages_[i].busy_seconds += stages[i].busy_seconds;
    stages_[i].starved_seconds += stages[i].starved_seconds;
    stages_[i].blocked_seconds += stages[i].blocked_seconds;
    stages_[i].items += stages[i].items;
  }
}

void Inspector::AddTallies(const Sampler& sampler) {
  Add(sampler.tally());
  lists_.cached += sampler.lists().cached;
  lists_.held += sampler.lists().held;
  lists_.stored += sampler.lists().stored;
}

void Inspector::Add(const io::ReadTally& tally) {
  tally_.rows += tally.rows;
  tally_.payload_bytes += tally.payload_bytes;
  tally_.bytes_read += tally.bytes_read;
  tally_.requests += tally.requests;
  tally_.wait_seconds += tally.wait_seconds;
}

SuperbatchProfile Inspector::profile() const {
  absl::MutexLock lock(&mutex_);
  return profile_;
}

sample::ListTally Inspector::lists() const {
  absl::MutexLock lock(&mutex_);
  return lists_;
}

io::ReadTally Inspector::tally() const {
  absl::MutexLock lock(&mutex_);
  return tally_;
}

}  // namespace hearth::strategy
