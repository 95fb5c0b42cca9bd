#ifndef HEARTH_ENGINE_JOB_DATA_AUTO_CHOICE_H_
#define HEARTH_ENGINE_JOB_DATA_AUTO_CHOICE_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/job/data/passes.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/data/strategy_lease.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/kinds.h"

/// The choice of a job's strategy (`--strategy auto`): every strategy that can
/// do the job, with its settings, is priced for this job on this machine, and
/// the cheapest is taken. No choice changes a batch: strategies are chosen that
/// deliver the batches of `memory` in order.

namespace hearth::job {

/// Arguments of ChooseStrategy. All of it outlives the call.
struct AutoBasis {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const PassSchedule& passes;
  /// REQUIRES: `automatic` is set.
  const BatchOptions& data;
  /// Partition that orders the seeds; null if they are shuffled.
  const SeedPartition* partition = nullptr;
  const ModelNeed& model;
  /// The job that is priced: its epochs, threads and model.
  const TrainJobOptions& job;
  /// Whether all candidates are priced even if memory holds everything.
  bool compares_all = false;
  /// The job's own folder, which keeps the choice for later runs of the job;
  /// empty = the choice is not kept.
  std::string folder = {};
};

/// Chooses the strategy. Where memory holds all rows and the topology, it is
/// `memory`, and nothing is measured. Otherwise a few batches are sampled and
/// trained (SampleWorkload, StepTimer), the disk's profile is looked up
/// (ProfileOf), and the candidate with the least seconds is chosen. A choice
/// that an earlier run of the job has kept holds as long as it fits into
/// memory. If that run left its strategy (AutoChoice::slow_epoch_seconds), the
/// disk is measured anew, and a strategy that promises at most 0.7 times what
/// the old one would go on to take, takes over; that choice is the last.
///
/// Where memory is too short for that sample, it is the first strategy that
/// fits. Logs a line with the choice and its reason. Errors of FitToMemory, of
/// sampling, of the model and of MemoryLedger::Reserve; RESOURCE_EXHAUSTED as
/// CheckFits if no strategy fits; CANCELLED when a stop is requested.
absl::StatusOr<AutoChoice> ChooseStrategy(const JobEnvironment& environment,
                                          const AutoBasis& basis,
                                          Observer& observer,
                                          const std::stop_token& stop);

/// Whether a candidate promises at most 0.7 times the seconds that `epochs`
/// more epochs take with the chosen strategy, at `epoch_seconds` each, and the
/// choice may be made again.
bool PromisesMore(const AutoChoice& choice, double epoch_seconds,
                  int64_t epochs);

/// The options of the chosen strategy.
strategy::StrategyOptions StrategyOf(const AutoChoice& choice);

/// Writes the choice in a job's folder, durably.
absl::Status WriteAutoChoice(io::FileSystem& files, const std::string& folder,
                             const AutoChoice& choice);

/// Reads the choice. NOT_FOUND if none was written; DATA_LOSS, naming the file,
/// if it is damaged or of another version.
absl::StatusOr<AutoChoice> ReadAutoChoice(io::FileSystem& files,
                                          const std::string& folder);

/// Sorts candidates, the cheapest first, and says in one line what the first is
/// and why. REQUIRES: one has no refusal.
std::string RankCandidates(std::vector<AutoCandidate>& candidates);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_AUTO_CHOICE_H_
