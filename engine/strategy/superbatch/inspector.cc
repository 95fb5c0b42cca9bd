#include "engine/strategy/superbatch/inspector.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/io/row_reader.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/sampling.h"

// `beside` runs in the pipeline's sink, which is called on the caller's thread
// as soon as the first batch is sampled. The queue before the sink holds the
// whole superbatch, so that no sampler ever waits for `beside`.

namespace hearth::strategy {
namespace {

// A shard on its way through the stages. Once its sample is complete, it is
// written to a file.
class NumberItem final : public pipeline::Item {
 public:
  explicit NumberItem(int64_t number) : number_(number) {}
  int64_t number() const { return number_; }

  sample::BatchLists lists;
  // The sample so far.
  sample::MiniBatch sample;

 private:
  const int64_t number_;
};

}  // namespace

/// The sampler of one thread, with its reader and tallies.
class Inspector::Sampler {
 public:
  static absl::StatusOr<std::unique_ptr<Sampler>> Make(
      const InspectorContext& context, const sample::NeighborCache& neighbors,
      std::stop_token stop) {
    HEARTH_ASSIGN_OR_RETURN(
        io::QueuedReader reader,
        io::QueuedReader::Open(context.read_queues, context.io_depth,
                               *context.data.topology.indices,
                               context.data.topology.layout, context.clock));
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

  const io::ReadTally& tally() const { return tally_; }
  const sample::ListTally& lists() const { return lists_; }

  // Calls `work` with the sampler, which may draw from `lists` during the call.
  template <typename Work>
  auto With(const sample::BatchLists& lists, const Work& work) {
    batch_lists_ = lists;
    auto result = work(*sampler_);
    batch_lists_.clear();
    return result;
  }

 private:
  explicit Sampler(io::QueuedReader reader) : reader_(std::move(reader)) {}

  io::QueuedReader reader_;
  sample::BatchLists batch_lists_;
  io::ReadTally tally_;
  sample::ListTally lists_;
  std::unique_ptr<sample::NeighborSampler> sampler_;
};

Inspector::Inspector(const InspectorContext& context) : context_(context) {
  if (context.lists != nullptr) {
    stages_.push_back({.name = "lists", .threads = 1});
  }
  if (context.pass.history == nullptr) {
    stages_.push_back({.name = "sample", .threads = context.samplers});
    return;
  }
  decisions_.emplace(*context.pass.history);
  stages_.push_back({.name = "sample_top", .threads = context.samplers});
  stages_.push_back({.name = "decide", .threads = 1});
  stages_.push_back({.name = "sample_rest", .threads = context.samplers});
}

absl::StatusOr<Inspector::Samplers> Inspector::NewSamplers(
    const sample::NeighborCache& neighbors, const std::stop_token& stop) const {
  Samplers samplers;
  for (int i = 0; i < context_.samplers; ++i) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Sampler> sampler,
                            Sampler::Make(context_, neighbors, stop));
    samplers.push_back(std::move(sampler));
  }
  return samplers;
}

absl::Status Inspector::Sample(
    const Superbatch& superbatch, const sample::NeighborCache& neighbors,
    std::stop_token stop,
    const std::function<absl::Status(std::stop_token)>& beside) {
  if (superbatch.count == 0) return beside(std::move(stop));
  std::stop_source abandon;
  HEARTH_ASSIGN_OR_RETURN(const Samplers samplers,
                          NewSamplers(neighbors, abandon.get_token()));
  Samplers samplers_of_top;
  if (decisions_.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(samplers_of_top,
                            NewSamplers(neighbors, abandon.get_token()));
  }
  std::unique_ptr<ListFeed> feed;
  std::vector<pipeline::Stage> stages;
  if (context_.lists != nullptr) {
    feed = context_.lists->NewFeed(context_.pass);
    stages.push_back(ListStage(*feed, superbatch.count));
  }
  const auto key = [this](const NumberItem& shard) {
    return KeyOfShard(context_.pass, shard.number());
  };
  const auto seeds = [this](const NumberItem& shard) {
    return ShardSeeds(context_.pass, context_.seeds, shard.number());
  };
  if (decisions_.has_value()) {
    stages.push_back(
        {.name = "sample_top",
         .width = context_.samplers,
         .queue_capacity = QueueCapacity(context_.pass, kUndecided),
         .work = [&](int thread, pipeline::Item& item) -> absl::Status {
           auto& shard = static_cast<NumberItem&>(item);
           HEARTH_ASSIGN_OR_RETURN(
               shard.sample,
               samplers_of_top[thread]->With(
                   shard.lists, [&](sample::NeighborSampler& sampler) {
                     return sampler.SampleTop(key(shard), seeds(shard));
                   }));
           return absl::OkStatus();
         }});
    stages.push_back(DecideStage());
  }
  stages.push_back(
      {.name = decisions_.has_value() ? "sample_rest" : "sample",
       .width = context_.samplers,
       .queue_capacity = static_cast<int>(superbatch.count),
       .work = [&](int thread, pipeline::Item& item) -> absl::Status {
         auto& shard = static_cast<NumberItem&>(item);
         HEARTH_RETURN_IF_ERROR(samplers[thread]->With(
             shard.lists,
             [&](sample::NeighborSampler& sampler) -> absl::Status {
               if (decisions_.has_value()) {
                 return sampler.SampleRest(shard.sample);
               }
               HEARTH_ASSIGN_OR_RETURN(
                   shard.sample, sampler.Sample(key(shard), seeds(shard)));
               return absl::OkStatus();
             }));
         shard.lists.clear();
         return KeepSample(shard.number(), std::exchange(shard.sample, {}));
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
  for (const auto& sampler : samplers_of_top) AddTallies(*sampler);
  if (feed != nullptr) Add(feed->tally());
  return status;
}

// Any number of items may wait for the samplers: the feed bounds the memory
// that they hold.
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

// Decides shard by shard, in order.
pipeline::Stage Inspector::DecideStage() {
  return {.name = "decide",
          .queue_capacity = QueueCapacity(context_.pass, kUndecided),
          .work = [this](int /*thread*/, pipeline::Item& item) {
            auto& shard = static_cast<NumberItem&>(item);
            decisions_->Decide(shard.number() / context_.pass.shards,
                               *shard.sample.top);
            return absl::OkStatus();
          }};
}

absl::Status Inspector::KeepSample(int64_t number,
                                   const sample::MiniBatch& batch) {
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

// The last of `stages`, the sink, is left out.
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
