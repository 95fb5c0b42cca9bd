#ifndef HEARTH_SERVER_STORAGE_SWEEP_STORE_H_
#define HEARTH_SERVER_STORAGE_SWEEP_STORE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/sweeps.pb.h"

namespace hearth::server {

class Database;
class JobRows;
class JobStore;
struct ChangedJobs;

/// One step of a sweep: events with the decisions that follow from them, and
/// their effects on jobs, stored together.
struct SweepStep {
  struct NewJob {
    v1::JobSpec spec;
    uint32_t trial = 0;
    uint32_t replica = 0;
  };
  struct JobEpoch {
    std::string job;
    v1::EpochReport report;
  };

  /// Sweep after the step, without trials; the store sets its last sequence
  /// number.
  v1::Sweep sweep;
  /// Events; the store sets sequence numbers and times.
  std::vector<v1::SweepEvent> events;
  std::vector<NewJob> new_jobs;
  /// Ids of jobs to cancel, to hold back and to release.
  std::vector<std::string> cancelled;
  std::vector<std::string> held;
  std::vector<std::string> released;
  /// Reports of jobs of the sweep that led to the step.
  std::vector<JobEpoch> epochs = {};
};

/// Events of a sweep, in order.
struct SweepEventBatch {
  std::vector<v1::SweepEvent> events;
  /// Whether the sweep has ended, and `events` holds its last event or nothing.
  bool is_last = false;
};

/// Sweeps and their events, in the database of the job store. Acknowledged
/// calls survive kill -9 and power loss. Thread-safe.
class SweepStore {
 public:
  /// Gets the id of a sweep that has a new event, after the event is stored.
  using Listener = std::function<void(const std::string& id)>;

  /// `jobs` and `clock` must outlive the store.
  SweepStore(JobStore& jobs, const Clock& clock, Listener listener)
      : jobs_(jobs), clock_(clock), listener_(std::move(listener)) {}

  /// Sweep that an earlier request of this id began; nullopt if none did.
  /// ALREADY_EXISTS if the specs differ.
  absl::StatusOr<std::optional<v1::Sweep>> FindRequest(
      const std::string& request_id, const v1::SweepSpec& spec);

  /// Adds a sweep with its first step; sets its id, time and last sequence
  /// number in `step`, and returns the ids of its new jobs, in their order.
  absl::StatusOr<std::vector<std::string>> Add(const std::string& request_id,
                                               SweepStep& step);

  /// Stores a further step; sets its last sequence number, and returns the ids
  /// of its new jobs, in their order.
  absl::StatusOr<std::vector<std::string>> Commit(SweepStep& step);

  /// Sweep `id` without trials. NOT_FOUND for an unknown id.
  absl::StatusOr<v1::Sweep> Get(const std::string& id);

  /// The newest `limit` sweeps, or all of them, the newest first, without
  /// trials. A sweep that cannot be read is logged and left out.
  absl::StatusOr<std::vector<v1::Sweep>> List(
      int64_t limit = std::numeric_limits<int64_t>::max());

  /// Up to `limit` events from sequence number `from` on. NOT_FOUND for an
  /// unknown id.
  absl::StatusOr<SweepEventBatch> ReadEvents(const std::string& id,
                                             uint64_t from, int limit);

  /// Existing jobs of the sweep, ordered by trial and replica, without epochs.
  absl::StatusOr<std::vector<v1::Job>> ReadJobs(const std::string& id);

  /// Forgets a sweep and its events, but not its jobs.
  absl::Status Delete(const std::string& id);

 private:
  absl::Status Store(Database& database, JobRows& rows, ChangedJobs& changed,
                     SweepStep& step, std::vector<std::string>& ids);

  JobStore& jobs_;
  const Clock& clock_;
  const Listener listener_;
};

/// Whether a sweep in `state` stays in it.
bool HasEnded(v1::SweepState state);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_SWEEP_STORE_H_
