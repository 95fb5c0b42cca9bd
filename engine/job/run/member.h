#ifndef HEARTH_ENGINE_JOB_RUN_MEMBER_H_
#define HEARTH_ENGINE_JOB_RUN_MEMBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/job/data/passes.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/sample/seed_requests.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// The pass that a member needs next.
struct Wish {
  enum class Kind {
    kTraining,
    kValidation,
    kTest,
    /// A pass over seeds that the member's client asks for (Member::Requests).
    kRequests,
    /// None at present: the member's client has not asked for one.
    kNothing,
    /// None any more: the member is to be finished.
    kDone,
  };
  Kind kind = Kind::kNothing;
  /// The member's current epoch, from 0.
  int64_t epoch = 0;
  /// First batch that it needs of the pass, from 0.
  int64_t first_batch = 0;
  /// kRequests: the epoch, from 0, whose samples batches have; whether the
  /// client has asked for none at present.
  int64_t request_epoch = 0;
  bool is_idle = false;
};

/// A job's part in a TrainRun (train_run.h): says which pass the job needs
/// next, and takes its batches. An error of a call concerns this member alone.
/// Single-owner: belongs to the job's thread.
///
/// Between passes Next() is asked. A pass is BeginPass, then Take for each
/// batch whose number is next_batch(), then EndPass after the last batch, or
/// LeavePass before.
class Member {
 public:
  using Shards = absl::Span<const train::BatchView>;

  /// The job: its options, its listeners, and the parts of the process that it
  /// uses.
  struct Job {
    const JobEnvironment& environment;
    const TrainJobOptions& options;
    Observer& observer;
    TrainMetrics& metrics;
    MemorySampler& memory;
    /// Asks the job to stop.
    std::stop_token stop = {};
    /// First epochs trained without the history, to report beside the epochs
    /// with it; outlives the member.
    absl::Span<const ExactEpoch> exact = {};
    /// Whether the job goes on where another member of this run has ended: it
    /// is not resumed, and the observer has heard of the last epoch.
    bool continues = false;
  };

  virtual ~Member() = default;

  /// Upper bound of the host memory that the member holds, in bytes, for
  /// batches of `shape`; the part of it that stays allocated between batches
  /// (for an empty shape: what does not depend on batches); and the part of
  /// that which is one copy of a model's parameters.
  virtual uint64_t ModelBytes(const sample::BatchShape& shape) const = 0;
  virtual uint64_t KeptBytes(const sample::BatchShape& shape) const = 0;
  virtual uint64_t ParameterBytes() const { return 0; }
  /// Prepares for batches of up to `shape`: reserves memory of the GPU that
  /// trains the model, if one does, for the member's lifetime. Errors as
  /// MemoryLedger::Reserve.
  virtual absl::Status Reserve(const sample::BatchShape& shape) = 0;
  /// The reservation of Reserve; empty without a GPU.
  virtual strategy::MemoryEstimate gpu_memory() const { return {}; }

  /// Takes the memory that is reserved. Call once, before all calls below.
  /// `self_loops` of the dataset outlive this; null: no node has a self loop,
  /// or the model does not count them.
  virtual absl::Status Begin(const store::SelfLoops* self_loops) = 0;

  /// Sets the function that is called, on any thread, when Next() may have
  /// changed by itself; null = none.
  virtual void SetOnChange(std::function<void()> /*on_change*/) {}

  /// Whether it has taken no batch, in this run or an earlier one.
  virtual bool is_new() const = 0;

  /// The pass that it needs now. An error ends the member.
  virtual absl::StatusOr<Wish> Next() = 0;

  /// Memory for the input rows of the passes in which it takes part, for each
  /// shard of a batch; empty = the strategy's own.
  virtual std::vector<std::shared_ptr<train::InputPool>> input_pools() {
    return {};
  }

  /// Host memory that it takes beyond ModelBytes where it takes input rows in
  /// place (strategy::Pass::rows_in_place); absent if it would rather take
  /// batches of `shape` without.
  virtual std::optional<uint64_t> BytesInPlace(
      const sample::BatchShape& /*shape*/) const {
    return std::nullopt;
  }

  /// The seeds of a pass of its wish kRequests. They end after
  /// kRequestSeconds, and, unless they `may_wait`, when there are none at
  /// present: the wish then comes again. Valid until the next call.
  virtual sample::SeedRequests* Requests(bool /*may_wait*/) { return nullptr; }
  static constexpr double kRequestSeconds = 10;

  /// The member takes part in the pass of `wish`, which Next() has returned.
  virtual absl::Status BeginPass(const Wish& wish) = 0;

  /// Number of the batch that it takes next.
  virtual int64_t next_batch() const = 0;

  /// Embeddings of earlier batches of the epoch that the next batch may use;
  /// none without a history.
  virtual std::vector<sample::LiveHistory> LiveHistories() const { return {}; }

  /// Takes the next batch, given as its shards. `pass_so_far` returns the
  /// report of the pass as if it ended now.
  virtual absl::Status Take(
      Shards shards, absl::FunctionRef<strategy::PassReport()> pass_so_far) = 0;

  /// Whether it takes no further batch of the pass, although there are some.
  virtual bool WantsToLeave() const { return false; }

  /// The pass ended for the member before its last batch.
  virtual void LeavePass(const strategy::PassReport& so_far) = 0;

  /// The pass has ended.
  virtual absl::Status EndPass(const strategy::PassReport& report) = 0;

  /// Report of an ended epoch that the observer has yet to hear of; each is
  /// returned once. A resumed member returns the last epoch's again: the job
  /// may have been killed between the epoch's checkpoint and its report.
  virtual std::optional<EpochReport> TakeReport() = 0;

  /// Ends the member early: it writes what it needs to go on later.
  virtual absl::Status Stop() = 0;

  /// Ends a member whose wish is kDone. The report lacks what the run knows.
  virtual absl::StatusOr<TrainReport> Finish() = 0;
};

/// Makes the member of a job: a FeedMember if job.options.feed is set, else a
/// ModelTrainer, whose errors it returns. All arguments outlive the member.
absl::StatusOr<std::unique_ptr<Member>> NewMember(const Member::Job& job,
                                                  const store::Dataset& dataset,
                                                  const PassSchedule& passes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_MEMBER_H_
