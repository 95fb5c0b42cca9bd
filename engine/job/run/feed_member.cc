// A feed's life, step by step:
//   1. Begin: make the pools of slots, and welcome the client.
//   2. The client opens a pass: Next() wishes for it, from the first batch that
//      the client wants.
//   3. Take, for each batch: wait until the client holds fewer batches than it
//      may; the rows are in a slot already, since the pass has assembled them
//      there; write all other arrays to a second slot, and pass on both.
//   4. The pass ends, or the client closes it, or is away for long: LeavePass.
//   5. The client says bye: Next() wishes to be finished.
#include "engine/job/run/feed_member.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/job/interface/observer.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"

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
                                  .feature_dim = type.features.shape[1],
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
  return welcome;
}

absl::string_view PhaseOf(feed::Split split) {
  switch (split) {
    case feed::Split::kTrain:
      return "training";
    case feed::Split::kValid:
      return "validating";
    case feed::Split::kTest:
      return "testing";
  }
  return "";
}

}  // namespace

FeedMember::FeedMember(const Job& job, const store::Dataset& dataset,
                       const PassSchedule& passes)
    : job_(job),
      channel_(*job.options.feed->channel),
      graph_(feed::FeedGraph::Of(dataset.manifest(), dataset.target_type())),
      welcome_(WelcomeTo(job, dataset, passes)) {}

FeedMember::~FeedMember() { channel_.SetNotReady(); }

uint64_t FeedMember::ModelBytes(const sample::BatchShape& shape) const {
  if (shape.nodes.empty()) return 0;
  const auto credits = static_cast<uint64_t>(welcome_.credits);
  uint64_t rest =
      feed::MostArrayBytes(feed::BatchLayout::kLayers, shape, graph_);
  if (job_.options.data.once) {
    rest = std::max(
        rest, feed::MostArrayBytes(feed::BatchLayout::kGraph, shape, graph_));
  }
  return credits * feed::SlotPool::SlotBytes(RowBytes(shape)) +
         (credits + 1) * feed::SlotPool::SlotBytes(rest);
}

absl::Status FeedMember::Reserve(const sample::BatchShape& shape) {
  shape_ = shape;
  return absl::OkStatus();
}

absl::Status FeedMember::Begin(const store::SelfLoops* /*self_loops*/) {
  rows_ = feed::SlotPool::Make(RowBytes(shape_));
  rest_ = feed::SlotPool::Make(/*expected_bytes=*/0);
  channel_.SetReady(welcome_);
  return absl::OkStatus();
}

void FeedMember::SetOnChange(std::function<void()> on_change) {
  channel_.SetOnChange(std::move(on_change));
}

bool FeedMember::is_new() const { return channel_.num_delivered() == 0; }

uint64_t FeedMember::RowBytes(const sample::BatchShape& shape) const {
  return static_cast<uint64_t>(shape.num_inputs()) *
         static_cast<uint64_t>(welcome_.feature_dim) * sizeof(float);
}

absl::StatusOr<Wish> FeedMember::Next() {
  Wish wish = {.epoch = epoch_};
  std::optional<feed::OpenPass> pass;
  const feed::Channel::Demand demand = channel_.demand(pass);
  // After the demand: a client reports its epochs before it says bye.
  for (feed::ReportedEpoch& epoch : channel_.TakeEpochs()) {
    epochs_.push_back(std::move(epoch));
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
  pass_ = *pass;
  wish.first_batch = pass_.next_batch;
  switch (pass_.split) {
    case feed::Split::kTrain:
      wish.kind = Wish::Kind::kTraining;
      wish.epoch = epoch_ = pass_.epoch;
      break;
    case feed::Split::kValid:
      wish.kind = Wish::Kind::kValidation;
      break;
    case feed::Split::kTest:
      wish.kind = Wish::Kind::kTest;
      break;
  }
  return wish;
}

absl::Status FeedMember::BeginPass(const Wish& /*wish*/) {
  wants_to_leave_ = false;
  if (pass_.layout == feed::BatchLayout::kGraph && !job_.options.data.once) {
    return absl::InvalidArgumentError(
        "a batch as one graph needs the sampler subgraph");
  }
  return absl::OkStatus();
}

absl::Status FeedMember::Take(
    Shards shards, absl::FunctionRef<strategy::PassReport()> /*pass_so_far*/) {
  if (!channel_.AwaitCredit(pass_.number, job_.stop)) {
    wants_to_leave_ = true;
    return absl::OkStatus();
  }
  const train::BatchView& batch = shards.front();
  HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<feed::Slot> rows,
                          RowsOf(batch));
  HEARTH_ASSIGN_OR_RETURN(const feed::BatchArrays arrays,
                          feed::DescribeArrays(pass_.layout, batch, graph_));
  HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<feed::Slot> rest,
                          rest_->TakeSlot(arrays.bytes));
  feed::FillArrays(arrays, batch, graph_, rest->data());
  channel_.Deliver({.pass = pass_.number,
                    .number = pass_.next_batch,
                    .num_seeds = batch.sample.num_seeds,
                    .arrays = arrays,
                    .rows = rows,
                    .rest = rest});
  ++pass_.next_batch;
  job_.metrics.OnBatch(/*loss=*/0);
  ReportProgress();
  return absl::OkStatus();
}

// The slot of the batch's rows; a copy if they are elsewhere.
absl::StatusOr<std::shared_ptr<feed::Slot>> FeedMember::RowsOf(
    const train::BatchView& batch) {
  if (auto slot = std::dynamic_pointer_cast<feed::Slot>(batch.input_memory);
      slot != nullptr) {
    return slot;
  }
  const uint64_t bytes = batch.sample.input_nodes.size() *
                         static_cast<uint64_t>(batch.feature_dim) *
                         sizeof(float);
  HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<feed::Slot> slot,
                          rows_->TakeSlot(bytes));
  std::memcpy(slot->data(), batch.inputs, bytes);
  return slot;
}

void FeedMember::LeavePass(const strategy::PassReport& so_far) {
  wants_to_leave_ = false;
  channel_.AddPass(pass_.split, so_far);
}

absl::Status FeedMember::EndPass(const strategy::PassReport& report) {
  channel_.AddPass(pass_.split, report);
  if (pass_.split == feed::Split::kTrain) training_ = report;
  channel_.EndPass(pass_.number);
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
  const auto total = [&] {
    switch (pass_.split) {
      case feed::Split::kTrain:
        return welcome_.train.batches;
      case feed::Split::kValid:
        return welcome_.valid.batches;
      case feed::Split::kTest:
        return welcome_.test.batches;
    }
    return int64_t{0};
  };
  const bool trains = pass_.split == feed::Split::kTrain;
  job_.observer.OnProgress(
      {.phase = std::string(PhaseOf(pass_.split)),
       .done = static_cast<uint64_t>(pass_.next_batch),
       .total = static_cast<uint64_t>(total()),
       .epoch = trains ? static_cast<uint32_t>(epoch_ + 1) : 0,
       .epochs = 0,
       .loss = std::nullopt});
}

}  // namespace hearth::job
