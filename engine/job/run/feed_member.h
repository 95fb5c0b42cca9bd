#ifndef HEARTH_ENGINE_JOB_RUN_FEED_MEMBER_H_
#define HEARTH_ENGINE_JOB_RUN_FEED_MEMBER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "engine/job/data/passes.h"
#include "engine/job/interface/report.h"
#include "engine/job/run/member.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/seed_requests.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/strategy/pass.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// Gives the batches of a TrainRun to a client that trains a model of its own:
/// its wishes are the passes that the client opens on the job's channel. It
/// keeps nothing that must survive: what the client holds, and how far it is,
/// is in the channel. With several trainers, each is a client with a channel of
/// its own, which gets its shard of each batch; all must open equal passes.
///
/// A client that asks for nothing for a while, or holds all the batches that it
/// may, is waited for (feed::Channel::kPatienceSeconds); then Next() fails with
/// the cause WaitCause::kClient. Single-owner: belongs to the job's thread.
class FeedMember final : public Member {
 public:
  /// All arguments, and what `job` refers to, outlive the calls of the member;
  /// job.options.feed has the channels. Tells the clients about the passes in
  /// `passes`.
  FeedMember(const Job& job, const store::Dataset& dataset,
             const PassSchedule& passes);
  ~FeedMember() override;

  /// The slots that the client may hold, with the arrays of one more batch.
  uint64_t ModelBytes(const sample::BatchShape& shape) const override;
  uint64_t KeptBytes(const sample::BatchShape& shape) const override {
    return ModelBytes(shape);
  }
  absl::Status Reserve(const sample::BatchShape& shape) override;
  absl::Status Begin(const store::SelfLoops* self_loops) override;
  void SetOnChange(std::function<void()> on_change) override;
  bool is_new() const override;
  absl::StatusOr<Wish> Next() override;
  std::vector<std::shared_ptr<train::InputPool>> input_pools() override;
  sample::SeedRequests* Requests(bool may_wait) override;
  absl::Status BeginPass(const Wish& wish) override;
  int64_t next_batch() const override { return passes_.front().next_batch; }
  absl::Status Take(
      Shards shards,
      absl::FunctionRef<strategy::PassReport()> pass_so_far) override;
  bool WantsToLeave() const override { return wants_to_leave_; }
  void LeavePass(const strategy::PassReport& so_far) override;
  absl::Status EndPass(const strategy::PassReport& report) override;
  std::optional<EpochReport> TakeReport() override;
  absl::Status Stop() override { return absl::OkStatus(); }
  absl::StatusOr<TrainReport> Finish() override;

 private:
  class RequestTurn;

  // What the clients want together; `passes_` is set with kPass. Ends what the
  // others have open when one has left. INVALID_ARGUMENT if they have opened
  // passes that differ.
  absl::StatusOr<feed::Channel::Demand> Demand();
  feed::Split split() const { return passes_.front().split; }
  // Memory of a batch's rows, and of all else, at most.
  uint64_t RowBytes(const sample::BatchShape& shape) const;
  uint64_t RestBytes(const sample::BatchShape& shape) const;
  absl::Status ReserveFor(uint64_t rows_bytes, uint64_t rest_bytes);
  absl::StatusOr<std::shared_ptr<feed::Slot>> RowsOf(
      const train::BatchView& shard, size_t rank);
  absl::Status Deliver(const train::BatchView& shard, size_t rank,
                       double loss_scale, int64_t first_seed);
  void EndAll(const absl::Status& status);
  void EndPasses(const absl::Status& status);
  absl::Status CheckTakesRequests() const;
  void ReportProgress();

  const Job job_;
  const PassSchedule& schedule_;
  const std::vector<std::shared_ptr<feed::Channel>>& channels_;
  const feed::FeedGraph graph_;
  const feed::Welcome welcome_;
  // Size of the largest batch, or shard of a batch.
  sample::BatchShape shape_;
  // Slots of input rows, and of all else, of each trainer.
  std::vector<std::shared_ptr<feed::SlotPool>> rows_;
  std::vector<std::shared_ptr<feed::SlotPool>> rest_;
  // Memory of slots for requests beyond that of `shape_`; bytes of the largest
  // batch of requests.
  MemoryLedger::Reservation larger_slots_;
  uint64_t most_batch_bytes_ = 0;
  // Pass that the last wish was for, or that it takes part in, as each channel
  // numbers it.
  std::vector<feed::OpenPass> passes_;
  // Places of the seeds of the pass that it takes part in, in the order of the
  // pass.
  std::vector<int64_t> places_;
  bool wants_to_leave_ = false;
  // The requests of the last pass over some.
  std::unique_ptr<RequestTurn> turn_;
  // Epoch of the last training pass, from 0.
  int64_t epoch_ = 0;
  strategy::PassReport training_;
  // Epochs that clients have reported.
  std::deque<feed::ReportedEpoch> epochs_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_FEED_MEMBER_H_
