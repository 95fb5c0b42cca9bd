#ifndef HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_
#define HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/model_trainer.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// A job on board of a run: its member, and where its results go. What the run
/// calls of member and observer, it calls through RunHost::ForAll; else it only
/// looks.
struct Rider {
  const TrainJobOptions& options;
  Observer& observer;
  TrainMetrics& metrics;
  Member& member;
  /// Asks it to leave, after a checkpoint.
  std::stop_token stop;
  /// When the job began, on the steady clock, in seconds.
  double begin_seconds = 0;
  /// Whether the observer has heard that the job runs.
  bool is_running = false;
  /// Whether the report of member.last_epoch() is still to be passed on.
  bool owes_report = true;
  /// It leaves after so many epochs, without a test; absent: after its last.
  std::optional<int64_t> until_epoch = {};

  // Set by the run.
  std::optional<double> first_batch_seconds = {};
  Company company = {};
};

/// An epoch that a rider has ended.
struct EndedEpoch {
  Rider& rider;
  const EpochReport& report;
  /// The answer: why the job cannot go on.
  absl::Status status = absl::OkStatus();
};

/// Where a run's riders come from, on which threads they work, and where they
/// go. Called from the run's thread alone.
class RunHost {
 public:
  virtual ~RunHost() = default;

  /// Gives those that come on board now. Where none is on board it waits for
  /// one; none then = the run is over. `next_epoch` is the epoch that those on
  /// board go on with (DataOptions::EpochOfBatches); absent if none is.
  virtual std::vector<Rider*> Board(std::optional<int64_t> next_epoch) = 0;

  /// Makes a call for each of `riders`, on its own thread, several at a time,
  /// and returns once all are done: the status of each.
  virtual std::vector<absl::Status> ForAll(
      absl::Span<Rider* const> riders,
      absl::FunctionRef<absl::Status(Rider&)> call) = 0;

  /// The number of steps that ForAll makes at a time, at most.
  virtual int max_steps() const = 0;

  /// Passes on the reports of epochs that riders have ended together, before
  /// any of them goes on.
  virtual void Report(absl::Span<EndedEpoch> epochs) = 0;

  /// Riders have ended an epoch, and another pass over its data takes
  /// `pass_seconds`. The one that is to go on by itself; null = none.
  virtual Rider* PickLaggard(double pass_seconds) = 0;

  /// A pass that several riders shared saved them so many bytes of reading.
  virtual void OnShared(int64_t bytes) = 0;

  /// A rider goes, with its result; the run does not use it any more.
  virtual void Leave(Rider& rider, absl::StatusOr<TrainReport> result) = 0;
};

/// Trains the members of one or more jobs on the batches of one data run: each
/// pass is read once for all riders that need it. A rider that fails, or is
/// asked to stop, leaves at the next batch, and the others go on; each one's
/// losses are those that it would have alone. Riders whose next epochs differ
/// take turns, in an order in which they meet soon. Single-owner: belongs to
/// one thread, which need not be a job's.
class TrainRun {
 public:
  struct Parts {
    DataRun& data;
    MemoryLedger& memory;
    const Clock& clock;
    RunHost& host;
  };

  /// All that `parts` refers to outlives this.
  explicit TrainRun(const Parts& parts)
      : parts_(parts), models_(parts.memory, parts.host.max_steps()) {}
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  /// Runs until no rider is left. An error of the data path, or CANCELLED when
  /// the data run's stop was requested, is also the result of all riders that
  /// were on board; on CANCELLED they have written checkpoints. After another
  /// error the state of the strategy is unknown. The reports of riders have
  /// all but the process's memory. Call once.
  absl::Status Run();

 private:
  using Riders = std::vector<Rider*>;

  absl::Status RunAll();
  absl::Status Start(Riders& riders);
  absl::Status StartWith(Rider& first);
  absl::Status Welcome(const Riders& riders);
  std::optional<int64_t> PickEpoch();
  absl::Status EndEpochs();
  void Report();
  absl::Status EndRiders();
  void Finish(Rider& rider, const strategy::PassReport& test);
  void LeaveBehind();
  TrainReport Complete(const Rider& rider, TrainReport report) const;
  absl::Status RunEpoch(int64_t epoch);
  absl::Status Train(int64_t epoch);
  absl::Status Evaluate(const strategy::Pass& pass,
                        strategy::PassReport& report);
  absl::Status RunPass(
      const strategy::Pass& pass, Riders riders,
      absl::FunctionRef<void(absl::Span<const train::BatchView>)> deliver,
      strategy::PassReport& report);
  absl::Status DropStopped();
  void ForAll(const Riders& riders,
              absl::FunctionRef<absl::Status(Rider&)> call);
  void Leave(Rider& rider, absl::StatusOr<TrainReport> result);

  const Parts parts_;
  ModelMemory models_;
  bool started_ = false;
  // Those on board, those of them that are in the epoch that is next or runs,
  // and those of these that get the batches of the pass that runs.
  Riders riders_;
  Riders in_epoch_;
  Riders in_pass_;
  // Whether that pass is one of training.
  bool is_training_ = false;
  // Seconds of the data alone of the epoch that has just ended.
  std::optional<double> pass_seconds_;
};

/// The one of `epochs` to go on with, of jobs that have each come to one of
/// them, out of `num_epochs` that repeat: the first after the longest gap. From
/// there on those that are behind meet the others after the fewest passes.
/// REQUIRES: one epoch at least, each from 0 to num_epochs - 1.
int64_t FirstAfterLongestGap(const std::set<int64_t>& epochs,
                             int64_t num_epochs);

/// Trains one member from a data run of its own (TrainRun), all on the caller's
/// thread. CANCELLED when the rider or the data run was asked to stop: the
/// member has then written a checkpoint.
absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       DataRun& data, Rider rider);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_
