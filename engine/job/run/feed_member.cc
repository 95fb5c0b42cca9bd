// A feed's life, step by step:
//   1. Begin: make the pools of slots, and welcome the client.
//   2. The client opens a pass: Next() wishes for it, from the first batch that
//      the client wants.
//   3. Take, for each batch: wait until each client holds fewer batches than it
//      may; the rows are in a slot already, since the pass has assembled them
//      there; write all other arrays to a second slot, and pass on both.
//   4. The pass ends, or the client closes it, or is away for long: LeavePass.
//      A pass over requests ends for the run when there are none for a while;
//      it stays open, and Next() wishes for it again.
//   5. The client says bye: Next() wishes to be finished.
#include "engine/job/run/feed_member.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/job/interface/observer.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/sample/shard_window.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"

namespace hearth::job {
namespace {

feed::Welcome WelcomeTo(const Member::Job& job, const store::Dataset& dataset,
                        const PassSchedule& passes) {
  const store::Manifest& manifest = dataset.manifest();
  const auto of_split = [&](int64_t seeds) {
    return feed::Welcome::OfSplit{
        .batches = strategy::NumBatches(seeds, job.options.data.batch_size),
        .seeds = seeds};
  };
  const store::NodeTypeEntry& target =
      manifest.node_types[dataset.target_type()];
  feed::Welcome welcome;
  welcome.train = of_split(passes.num_train());
  welcome.valid = of_split(passes.num_valid());
  welcome.test = of_split(passes.num_test());
  if (target.label_width > 0) {
    welcome.labels = store::Name(target.label_kind);
    welcome.label_width = target.label_width;
  }
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    welcome.node_types.push_back({.name = type.name,
                                  .feature_dim = store::StoredFormat(type).dim,
                                  .num_nodes = type.num_nodes});
  }
  welcome.feature_dim = store::CommonFormat(manifest).dim;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    welcome.edge_types.push_back(absl::StrCat(type.source_type, ":",
                                              store::RelationOf(type), ":",
                                              type.destination_type));
  }
  welcome.target = target.name;
  welcome.fingerprint = manifest.fingerprint;
  welcome.credits = job.options.feed->credits;
  welcome.batch_size = job.options.data.batch_size;
  return welcome;
}

std::string PhaseOf(feed::Split split) {
  switch (split) {
    case feed::Split::kTrain:
      return "training";
    case feed::Split::kValid:
      return "validating";
    case feed::Split::kTest:
      return "testing";
    case feed::Split::kRequests:
      return "answering requests";
  }
  return "";
}

// INVALID_ARGUMENT, naming the request, unless `seeds` are those of a batch.
absl::Status CheckSeeds(absl::Span<const store::NodeId> seeds, int64_t number,
                        int64_t batch_size, const feed::FeedGraph& graph) {
  const std::string request = absl::StrCat("request ", number);
  if (seeds.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(request, " has no seeds"));
  }
  if (std::ssize(seeds) > batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(request, " has more than ", batch_size,
                     " seeds, the batch_size of the job"));
  }
  const store::NodeId first = graph.nodes.First(graph.target);
  const store::NodeId end = graph.nodes.First(graph.target + 1);
  std::vector<store::NodeId> sorted(seeds.begin(), seeds.end());
  std::sort(sorted.begin(), sorted.end());
  for (const store::NodeId seed : {sorted.front(), sorted.back()}) {
    if (seed >= first && seed < end) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(request, ": seed ", static_cast<uint64_t>(seed),
                     " is not a node of the target type, which are ", first,
                     " to ", end - 1));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(request, " has seed ", *twice, " twice"));
}

}  // namespace

// The requests of a client for the time of one pass.
class FeedMember::RequestTurn final : public sample::SeedRequests {
 public:
  struct Limits {
    // Seconds on the steady clock until which it waits for requests, and until
    // which it takes any.
    double wait_until = 0;
    double end = 0;
    int64_t batch_size = 0;
    const feed::FeedGraph& graph;
  };

  // A requested `stop` ends it. All arguments outlive this.
  RequestTurn(feed::Channel& channel, uint64_t pass, const Limits& limits,
              std::stop_token stop)
      : channel_(channel),
        pass_(pass),
        limits_(limits),
        on_stop_(std::move(stop), [this] { Interrupt(); }) {}

  double end() const { return limits_.end; }

  // Why the client's pass is to end; OK: it goes on.
  absl::Status error() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return error_;
  }

  std::optional<std::vector<store::NodeId>> Await(int64_t number) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<feed::SeedRequest> request = channel_.AwaitRequest(
        pass_, number, limits_.wait_until, interrupt_.get_token());
    if (!request.has_value()) return std::nullopt;
    absl::Status status = request->status();
    if (status.ok()) {
      status = CheckSeeds(**request, number, limits_.batch_size, limits_.graph);
    }
    if (status.ok()) return **std::move(request);
    absl::MutexLock lock(&mutex_);
    // The pass ends with the first of several.
    if (error_.ok() || number < error_number_) {
      error_ = status;
      error_number_ = number;
    }
    return std::nullopt;
  }

  void Interrupt() override { interrupt_.request_stop(); }

 private:
  feed::Channel& channel_;
  const uint64_t pass_;
  const Limits limits_;
  std::stop_source interrupt_;
  mutable absl::Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  int64_t error_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // Last member: it uses the others.
  const std::stop_callback<std::function<void()>> on_stop_;
};

FeedMember::FeedMember(const Job& job, const store::Dataset& dataset,
                       const PassSchedule& passes)
    : job_(job),
      schedule_(passes),
      channels_(job.options.feed->channels),
      graph_(feed::FeedGraph::Of(dataset.manifest(), dataset.target_type())),
      welcome_(WelcomeTo(job, dataset, passes)),
      passes_(channels_.size()) {
  // What clients hold of an earlier run counts among the slots of this one: its
  // own reservation ends.
  for (const auto& channel : channels_) channel->SetNotReady();
}

// What clients hold stays reserved. If others have taken the memory meanwhile,
// it is more than the ledger knows of until the clients release it.
FeedMember::~FeedMember() {
  for (const auto& channel : channels_) {
    const auto held = std::make_shared<MemoryLedger::Reservation>();
    if (const uint64_t bytes = channel->held_bytes(); bytes > 0) {
      strategy::MemoryEstimate estimate;
      estimate.Add("feed", bytes);
      job_.environment.memory.Reserve(estimate, *held).IgnoreError();
    }
    channel->SetNotReady(held);
  }
}

uint64_t FeedMember::ModelBytes(const sample::BatchShape& shape) const {
  if (shape.nodes.empty()) return 0;
  const auto credits = static_cast<uint64_t>(welcome_.credits);
  // Places of the seeds of a pass; seeds of requests that wait.
  const auto seeds = static_cast<uint64_t>(
      std::max({welcome_.train.seeds, welcome_.valid.seeds, welcome_.test.seeds,
                welcome_.batch_size}) +
      feed::Channel::kMostRequestedBatches * welcome_.batch_size);
  return seeds * sizeof(int64_t) +
         channels_.size() *
             (credits * feed::SlotPool::SlotBytes(RowBytes(shape)) +
              (credits + 1) * feed::SlotPool::SlotBytes(RestBytes(shape)));
}

uint64_t FeedMember::RestBytes(const sample::BatchShape& shape) const {
  uint64_t rest =
      feed::MostArrayBytes(feed::BatchLayout::kLayers, shape, graph_);
  if (job_.options.data.once) {
    rest = std::max(
        rest, feed::MostArrayBytes(feed::BatchLayout::kGraph, shape, graph_));
  }
  return rest;
}

absl::Status FeedMember::Reserve(const sample::BatchShape& shape) {
  shape_ = shape;
  return absl::OkStatus();
}

absl::Status FeedMember::Begin(const store::SelfLoops* /*self_loops*/) {
  for (const auto& channel : channels_) {
    rows_.push_back(feed::SlotPool::Make(RowBytes(shape_)));
    rest_.push_back(feed::SlotPool::Make(/*expected_bytes=*/0));
    channel->SetReady(welcome_, {rows_.back(), rest_.back()});
  }
  return absl::OkStatus();
}

void FeedMember::SetOnChange(std::function<void()> on_change) {
  for (const auto& channel : channels_) channel->SetOnChange(on_change);
}

std::vector<std::shared_ptr<train::InputPool>> FeedMember::input_pools() {
  return {rows_.begin(), rows_.end()};
}

bool FeedMember::is_new() const {
  return channels_.front()->num_delivered() == 0;
}

uint64_t FeedMember::RowBytes(const sample::BatchShape& shape) const {
  return static_cast<uint64_t>(shape.num_inputs()) *
         static_cast<uint64_t>(welcome_.feature_dim) * sizeof(float);
}

absl::StatusOr<feed::Channel::Demand> FeedMember::Demand() {
  using Wanted = feed::Channel::Demand;
  std::vector<feed::OpenPass> passes;
  bool is_away = false;
  bool has_left = false;
  size_t done = 0;
  for (const auto& channel : channels_) {
    std::optional<feed::OpenPass> pass;
    const Wanted wanted = channel->demand(pass);
    if (wanted == Wanted::kDone) ++done;
    if (wanted == Wanted::kAway) is_away = true;
    if (pass.has_value()) passes.push_back(*pass);
    has_left = has_left || wanted == Wanted::kDone ||
               (!channel->has_client() && channel->num_delivered() > 0);
  }
  if (done == channels_.size()) return Wanted::kDone;
  // It does not come to the passes that the others open.
  if (has_left) EndAll(absl::AbortedError("another trainer has left"));
  // The others wait for one that is away.
  if (is_away) return Wanted::kAway;
  if (has_left || passes.size() < channels_.size()) return Wanted::kNothing;
  for (const feed::OpenPass& pass : passes) {
    const feed::OpenPass& first = passes.front();
    if (pass.split != first.split || pass.epoch != first.epoch ||
        pass.next_batch != first.next_batch || pass.layout != first.layout ||
        pass.all_labels != first.all_labels) {
      return absl::InvalidArgumentError(
          "the trainers of a feed have opened passes that differ");
    }
  }
  passes_ = std::move(passes);
  return Wanted::kPass;
}

absl::StatusOr<Wish> FeedMember::Next() {
  Wish wish = {.epoch = epoch_};
  HEARTH_ASSIGN_OR_RETURN(const feed::Channel::Demand demand, Demand());
  // After the demand: a client reports its epochs before it says bye.
  for (const auto& channel : channels_) {
    for (feed::ReportedEpoch& epoch : channel->TakeEpochs()) {
      epochs_.push_back(std::move(epoch));
    }
  }
  switch (demand) {
    case feed::Channel::Demand::kDone:
      // Reports come first.
      if (epochs_.empty()) wish.kind = Wish::Kind::kDone;
      return wish;
    case feed::Channel::Demand::kNothing:
      return wish;
    case feed::Channel::Demand::kAway:
      if (!epochs_.empty()) return wish;
      return WaitForClientError("the client asks for no batches");
    case feed::Channel::Demand::kPass:
      break;
  }
  wish.first_batch = next_batch();
  switch (split()) {
    case feed::Split::kTrain:
      wish.kind = Wish::Kind::kTraining;
      wish.epoch = epoch_ = passes_.front().epoch;
      break;
    case feed::Split::kValid:
      wish.kind = Wish::Kind::kValidation;
      break;
    case feed::Split::kTest:
      wish.kind = Wish::Kind::kTest;
      break;
    case feed::Split::kRequests:
      if (const absl::Status status = CheckTakesRequests(); !status.ok()) {
        EndPasses(status);
        break;
      }
      wish.kind = Wish::Kind::kRequests;
      wish.request_epoch = passes_.front().epoch;
      wish.is_idle = passes_.front().end_batch == next_batch();
      break;
  }
  return wish;
}

absl::Status FeedMember::CheckTakesRequests() const {
  const strategy::StrategyOptions& strategy = job_.options.data.strategy;
  if (job_.options.data.window.AllOf(std::ssize(channels_)) > 1) {
    return absl::InvalidArgumentError(
        "requests: cannot be answered with several trainers");
  }
  if (!strategy::KindOf(strategy).takes_requests ||
      !strategy::DeliversInOrder(strategy)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "requests: cannot be answered with strategy ", strategy::Name(strategy),
        strategy::DeliversInOrder(strategy) ? "" : " out of order",
        ", but with memory, mmap and gnndrive"));
  }
  return absl::OkStatus();
}

sample::SeedRequests* FeedMember::Requests(bool may_wait) {
  const double now = channels_.front()->SteadySeconds();
  const double end = now + kRequestSeconds;
  turn_ = std::make_unique<RequestTurn>(
      *channels_.front(), passes_.front().number,
      RequestTurn::Limits{.wait_until = may_wait ? end : now,
                          .end = end,
                          .batch_size = job_.options.data.batch_size,
                          .graph = graph_},
      job_.stop);
  return turn_.get();
}

absl::Status FeedMember::BeginPass(const Wish& wish) {
  wants_to_leave_ = false;
  if (passes_.front().layout == feed::BatchLayout::kGraph &&
      !job_.options.data.once) {
    return absl::InvalidArgumentError(
        "a batch as one graph needs the sampler subgraph");
  }
  if (split() == feed::Split::kRequests) {
    // Those in the request.
    places_.resize(static_cast<size_t>(job_.options.data.batch_size));
    std::iota(places_.begin(), places_.end(), 0);
    return absl::OkStatus();
  }
  const strategy::Pass pass =
      split() == feed::Split::kTrain
          ? schedule_.Training(job_.options.data.EpochOfBatches(wish.epoch))
      : split() == feed::Split::kValid ? schedule_.Validation()
                                       : schedule_.Testing();
  places_ = pass.order->Places(pass.epoch_key);
  return absl::OkStatus();
}

absl::Status FeedMember::Take(
    Shards shards, absl::FunctionRef<strategy::PassReport()> /*pass_so_far*/) {
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    if (!channels_[rank]->AwaitCredit(passes_[rank].number, job_.stop)) {
      wants_to_leave_ = true;
      return absl::OkStatus();
    }
  }
  const sample::ShardWindow& window = job_.options.data.window;
  const int64_t all_shards = window.AllOf(std::ssize(shards));
  // Of the whole batch, whose shards are runs of its seeds.
  int64_t seeds = train::NumSeeds(shards);
  int64_t first_seed = 0;
  if (split() != feed::Split::kRequests) {
    // Strategies may change the order of batches.
    const int64_t batch_size = job_.options.data.batch_size;
    const int64_t begin =
        static_cast<int64_t>(shards.front().sample.key.batch) * batch_size;
    seeds = std::min(batch_size, std::ssize(places_) - begin);
    first_seed = begin + sample::ShardBegin(seeds, window.first, all_shards);
  }
  const bool is_left_out = seeds < all_shards;
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    if (is_left_out) {
      channels_[rank]->Skip(passes_[rank].number);
    } else {
      const int64_t of_shard = shards[rank].sample.num_seeds;
      HEARTH_RETURN_IF_ERROR(Deliver(shards[rank], rank,
                                     static_cast<double>(of_shard) *
                                         static_cast<double>(all_shards) /
                                         static_cast<double>(seeds),
                                     first_seed));
      first_seed += of_shard;
    }
    ++passes_[rank].next_batch;
  }
  if (split() == feed::Split::kRequests) {
    wants_to_leave_ = channels_.front()->SteadySeconds() >= turn_->end();
  }
  job_.metrics.OnBatch(/*loss=*/0);
  ReportProgress();
  return absl::OkStatus();
}

absl::Status FeedMember::Deliver(const train::BatchView& shard, size_t rank,
                                 double loss_scale, int64_t first_seed) {
  const feed::OpenPass& pass = passes_[rank];
  const feed::BatchExtras extras = {
      .all_labels = pass.all_labels,
      .input_id = absl::MakeConstSpan(places_).subspan(
          static_cast<size_t>(first_seed),
          static_cast<size_t>(shard.sample.num_seeds))};
  HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<feed::Slot> rows,
                          RowsOf(shard, rank));
  HEARTH_ASSIGN_OR_RETURN(
      const feed::BatchArrays arrays,
      feed::DescribeArrays(pass.layout, shard, graph_, extras));
  if (split() == feed::Split::kRequests) {
    if (const absl::Status status = ReserveFor(rows->bytes(), arrays.bytes);
        !status.ok()) {
      EndPasses(absl::ResourceExhaustedError(
          absl::StrCat("request ", pass.next_batch, ": ", status.message())));
      return absl::OkStatus();
    }
  }
  HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<feed::Slot> rest,
                          rest_[rank]->TakeSlot(arrays.bytes));
  feed::FillArrays(arrays, shard, graph_, rest->data(), extras);
  channels_[rank]->Deliver({.pass = pass.number,
                            .number = pass.next_batch,
                            .num_seeds = shard.sample.num_seeds,
                            .loss_scale = loss_scale,
                            .arrays = arrays,
                            .rows = rows,
                            .rest = rest});
  return absl::OkStatus();
}

// Batches of requests may be larger than any that was measured: reserves the
// slots that are then larger, too.
absl::Status FeedMember::ReserveFor(uint64_t rows_bytes, uint64_t rest_bytes) {
  const uint64_t bytes = rows_bytes + feed::SlotPool::SlotBytes(rest_bytes);
  if (bytes <= most_batch_bytes_) return absl::OkStatus();
  const uint64_t planned = feed::SlotPool::SlotBytes(RowBytes(shape_)) +
                           feed::SlotPool::SlotBytes(RestBytes(shape_));
  if (bytes > planned) {
    strategy::MemoryEstimate estimate;
    estimate.Add("feed", static_cast<uint64_t>(welcome_.credits + 1) *
                             (bytes - planned));
    HEARTH_RETURN_IF_ERROR(
        job_.environment.memory.Reserve(estimate, larger_slots_));
  }
  most_batch_bytes_ = bytes;
  return absl::OkStatus();
}

// The slot of the shard's rows; a copy if they are elsewhere.
absl::StatusOr<std::shared_ptr<feed::Slot>> FeedMember::RowsOf(
    const train::BatchView& shard, size_t rank) {
  if (auto slot = std::dynamic_pointer_cast<feed::Slot>(shard.input_memory);
      slot != nullptr) {
    return slot;
  }
  const uint64_t bytes = shard.sample.input_nodes.size() *
                         static_cast<uint64_t>(shard.feature_dim) *
                         sizeof(float);
  HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<feed::Slot> slot,
                          rows_[rank]->TakeSlot(bytes));
  std::memcpy(slot->data(), shard.inputs, bytes);
  return slot;
}

// With several trainers, one that has left ends the pass of all.
void FeedMember::LeavePass(const strategy::PassReport& so_far) {
  const bool has_left = std::exchange(wants_to_leave_, false);
  channels_.front()->AddPass(split(), so_far);
  if (!has_left || channels_.size() == 1) return;
  bool all_want = true;
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    const std::optional<feed::OpenPass> pass = channels_[rank]->open_pass();
    all_want =
        all_want && pass.has_value() && pass->number == passes_[rank].number;
  }
  if (all_want) return;
  // One that has left may have opened another: that goes on.
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    channels_[rank]->EndPass(
        passes_[rank].number,
        absl::AbortedError("another trainer has left the pass"));
  }
}

// Ends the passes that clients have open.
void FeedMember::EndAll(const absl::Status& status) {
  for (const auto& channel : channels_) {
    std::optional<feed::OpenPass> pass = channel->open_pass();
    if (pass.has_value()) channel->EndPass(pass->number, status);
  }
}

// Ends the passes that the last wish was for.
void FeedMember::EndPasses(const absl::Status& status) {
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    channels_[rank]->EndPass(passes_[rank].number, status);
  }
}

absl::Status FeedMember::EndPass(const strategy::PassReport& report) {
  channels_.front()->AddPass(split(), report);
  if (split() == feed::Split::kRequests) {
    // The turn is over, not the client's pass.
    if (absl::Status error = turn_->error(); !error.ok()) EndPasses(error);
    if (report.batches > 0) job_.observer.OnDurable();
    return absl::OkStatus();
  }
  if (split() == feed::Split::kTrain) training_ = report;
  EndPasses(absl::OkStatus());
  job_.observer.OnDurable();
  return absl::OkStatus();
}

std::optional<EpochReport> FeedMember::TakeReport() {
  if (epochs_.empty()) return std::nullopt;
  const feed::ReportedEpoch& epoch = epochs_.front();
  EpochReport report;
  report.epoch = epoch.epoch;
  report.loss = epoch.loss;
  report.metric = epoch.metric;
  report.valid_metric = epoch.valid_metric;
  report.training = training_;
  epochs_.pop_front();
  job_.metrics.OnEpoch(report);
  return report;
}

absl::StatusOr<TrainReport> FeedMember::Finish() {
  TrainReport report;
  report.peak_memory_bytes = job_.memory.PeakBytes();
  return report;
}

void FeedMember::ReportProgress() {
  const feed::Welcome::OfSplit of_split =
      split() == feed::Split::kTrain   ? welcome_.train
      : split() == feed::Split::kValid ? welcome_.valid
      : split() == feed::Split::kTest  ? welcome_.test
                                       : feed::Welcome::OfSplit{};
  const bool trains = split() == feed::Split::kTrain;
  job_.observer.OnProgress(
      {.phase = PhaseOf(split()),
       .done = static_cast<uint64_t>(next_batch()),
       .total = static_cast<uint64_t>(of_split.batches),
       .epoch = trains ? static_cast<uint32_t>(epoch_ + 1) : 0,
       .epochs = 0,
       .loss = std::nullopt});
}

}  // namespace hearth::job
