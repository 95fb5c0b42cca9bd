#include "server/jobs/job_queue.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "absl/hash/hash.h"
#include "server/mapping/spec_mapping.h"
#include "server/mapping/training_mapping.h"
#include "server/storage/job_state.h"

namespace hearth::server {
namespace {

// A key after the keys of all jobs.
constexpr std::pair<int, int64_t> kLast = {std::numeric_limits<int>::max(), 0};

// Verification and the export of a model hold only a few blocks.
bool TakesMemory(const v1::JobSpec& spec) {
  return !spec.has_verify() && !spec.has_export_();
}

// Whether jobs that end give back what `cause` names.
bool IsHeldByJobs(WaitCause cause) {
  return cause == WaitCause::kMemory || cause == WaitCause::kGpuMemory ||
         cause == WaitCause::kPlanSpace;
}

}  // namespace

Lane LaneOf(const v1::JobSpec& spec) {
  return spec.has_train() || spec.has_prepare() || spec.has_evaluate() ||
                 spec.has_feed() || spec.has_rank()
             ? Lane::kTraining
             : Lane::kShort;
}

QueuedJob QueuedJob::Of(const v1::Job& job) {
  QueuedJob queued;
  queued.id = job.id();
  queued.trace_id = job.trace_id();
  queued.number = JobNumber(job.id());
  queued.priority = job.priority();
  queued.lane = LaneOf(job.spec());
  queued.takes_memory = TakesMemory(job.spec());
  queued.begins_trial = !job.sweep().empty() && !job.has_start_time();
  if (job.spec().has_evaluate()) {
    // An evaluation needs no epoch.
    queued.sharing = {.job = job.id(),
                      .key = SharingKeyOf(job.spec().evaluate().train()),
                      .epoch = {}};
  }
  if (job.spec().has_train()) {
    const v1::TrainJobSpec& spec = job.spec().train();
    queued.sharing = {.job = job.id(), .key = ConvoyKeyOf(spec), .epoch = {}};
    queued.makes_plan =
        !job.has_start_time() && spec.machines() <= 1 &&
        (MakesPlans(spec.data()) || OrdersByParts(spec.data()) ||
         !spec.data().row_dtype().empty());
    // The epoch of a job that has begun is in its checkpoint.
    if (!job.has_start_time()) {
      queued.sharing.epoch = spec.data().first_epoch_key();
      queued.sharing.join = spec.join();
    }
  }
  if (const v1::RankSpec& rank = job.spec().rank(); !rank.convoy().empty()) {
    // Its leader decides about the epoch.
    queued.sharing = {.job = job.id(),
                      .key = absl::StrCat(rank.leader(), " ", rank.convoy()),
                      .epoch = {},
                      .join = true};
  }
  if (job.spec().has_feed()) {
    const v1::FeedSpec& spec = job.spec().feed();
    // Its client decides about the epoch.
    queued.sharing = {.job = job.id(),
                      .key = SharingKeyOf(spec),
                      .epoch = {},
                      .join = spec.join()};
  }
  return queued;
}

std::string QueuedJob::LogName() const {
  return trace_id.empty() ? id : absl::StrCat(id, " [", trace_id, "]");
}

JobQueue::JobQueue(
    WaitOptions options,
    std::function<job::MemoryAvailability(uint64_t)> memory_availability,
    std::function<bool(uint64_t)> plan_fits,
    std::function<bool(const std::string&)> client_waits)
    : options_(options),
      memory_availability_(std::move(memory_availability)),
      plan_fits_(std::move(plan_fits)),
      client_waits_(std::move(client_waits)) {}

void JobQueue::PutBack(QueuedJob job) {
  if (job.cause == WaitCause::kNone) {
    Add(std::move(job));
    return;
  }
  const Key key = KeyOf(job);
  keys_[job.id] = {&waiting_, key};
  waiting_[key] = std::move(job);
}

void JobQueue::Add(QueuedJob job) {
  Remove(job.id);
  NewJobs& of_lane = NewOf(job.lane);
  const Key key = KeyOf(job);
  keys_[job.id] = {&of_lane.jobs, key};
  since_.insert(job.queued_since);
  QueuedJob& added = of_lane.jobs[key];
  added = std::move(job);
  if (!added.takes_memory) of_lane.without_memory.insert(key);
  if (added.overtaken >= kMostOvertaking) of_lane.overtaken.insert(key);
  if (added.sharing.key.empty()) return;
  of_lane.by_sharing_key[added.sharing.key][StartOf(added)][key] = &added;
}

QueuedJob JobQueue::Extract(const Place& place) {
  const auto [jobs, key] = place;
  const auto found = jobs->find(key);
  QueuedJob job = std::move(found->second);
  jobs->erase(found);
  keys_.erase(job.id);
  if (jobs == &waiting_) return job;
  since_.erase(since_.find(job.queued_since));
  NewJobs& of_lane = NewOf(job.lane);
  of_lane.without_memory.erase(key);
  of_lane.overtaken.erase(key);
  const auto groups = of_lane.by_sharing_key.find(job.sharing.key);
  if (groups == of_lane.by_sharing_key.end()) return job;
  const auto group = groups->second.find(StartOf(job));
  group->second.erase(key);
  if (group->second.empty()) groups->second.erase(group);
  if (groups->second.empty()) of_lane.by_sharing_key.erase(groups);
  return job;
}

bool JobQueue::MayWait(const QueuedJob& job, WaitCause cause,
                       double now) const {
  return IsHeldByJobs(cause) || cause == WaitCause::kClient || job.tries == 0 ||
         now - job.waits_since < options_.limit_seconds;
}

void JobQueue::AddWaiting(QueuedJob job, WaitCause cause, uint64_t needed_bytes,
                          double now) {
  if (IsHeldByJobs(cause) || cause == WaitCause::kClient || job.tries == 0) {
    job.waits_since = now;
  }
  if (cause != WaitCause::kMemory || job.cause != cause) job.overtaken = 0;
  job.cause = cause;
  job.needed_bytes = needed_bytes;
  job.retry_at = now + PauseOf(job);
  ++job.tries;
  PutBack(std::move(job));
}

// Trying a job whose machines are missing costs little. Jobs that want each
// other's machines try at different times; those that shared passes, at one.
double JobQueue::PauseOf(const QueuedJob& job) const {
  if (job.cause != WaitCause::kPeer) return Pause(job.tries);
  const std::string& name = job.sharing.key.empty() ? job.id : job.sharing.key;
  const double share =
      static_cast<double>(absl::HashOf(name, job.tries) % 1024) / 1024;
  return std::min(Pause(job.tries), options_.longest_peer_pause_seconds) *
         (1 + share / 2);
}

double JobQueue::Pause(int tries) const {
  return std::min(std::ldexp(options_.first_pause_seconds, tries),
                  options_.longest_pause_seconds);
}

bool JobQueue::MayBeTried(const QueuedJob& job, double now) const {
  switch (job.cause) {
    case WaitCause::kMemory:
      return memory_availability_(job.needed_bytes) ==
             job::MemoryAvailability::kFree;
    case WaitCause::kPlanSpace:
      return plan_fits_(job.needed_bytes);
    case WaitCause::kClient:
      return client_waits_(job.id);
    default:
      return now >= job.retry_at;
  }
}

// Returns the key of the first job that has been overtaken too often; later
// jobs that take memory are held. Later jobs are not held for memory of other
// processes, which they would not free.
JobQueue::Key JobQueue::HoldBehind() const {
  for (const auto& [key, job] : waiting_) {
    if (job.cause == WaitCause::kMemory && job.overtaken >= kMostOvertaking &&
        memory_availability_(job.needed_bytes) !=
            job::MemoryAvailability::kHeldByOthers) {
      return key;
    }
  }
  return kLast;
}

JobQueue::Jobs::iterator JobQueue::FindWaiting(Lane lane, double now,
                                               const Key& hold,
                                               const Places& places,
                                               Key& place_hold) {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    QueuedJob& job = it->second;
    if (!MayBeTried(job, now)) {
      // Nothing tells when other processes free memory: the job polls.
      if (now >= job.retry_at) job.retry_at = now + Pause(job.tries++);
      continue;
    }
    const bool held = job.takes_memory && hold < it->first;
    if (job.lane != lane || held) continue;
    if (places.is_free || places.shares(job.sharing)) return it;
    if (job.overtaken >= kMostOvertaking) {
      place_hold = it->first;
      break;
    }
  }
  return waiting_.end();
}

JobQueue::Jobs::iterator JobQueue::FindNew(Lane lane, const Key& hold,
                                           const Places& places,
                                           Key& place_hold) {
  NewJobs& of_lane = NewOf(lane);
  if (!places.is_free) {
    if (!of_lane.overtaken.empty()) {
      place_hold = std::min(place_hold, *of_lane.overtaken.begin());
    }
    return FindSharing(of_lane, std::min(hold, place_hold), places);
  }
  const auto first = of_lane.jobs.begin();
  if (first == of_lane.jobs.end() || !(hold < first->first)) return first;
  // All jobs are held but those that take no memory.
  return of_lane.without_memory.empty()
             ? of_lane.jobs.end()
             : of_lane.jobs.find(*of_lane.without_memory.begin());
}

// Finds the first job up to `hold` that needs no place. Jobs that share passes
// take memory.
JobQueue::Jobs::iterator JobQueue::FindSharing(NewJobs& of_lane,
                                               const Key& hold,
                                               const Places& places) {
  auto found = of_lane.jobs.end();
  const auto consider = [&](const Key& key, const QueuedJob& job) {
    if (hold < key) return;
    if (found != of_lane.jobs.end() && !(key < found->first)) return;
    if (places.shares(job.sharing)) found = of_lane.jobs.find(key);
  };
  for (const std::string& id : places.expected) {
    const auto place = keys_.find(id);
    if (place == keys_.end() || place->second.first != &of_lane.jobs) continue;
    consider(place->second.second, of_lane.jobs.at(place->second.second));
  }
  for (const std::string& sharing_key : places.running_groups) {
    const auto groups = of_lane.by_sharing_key.find(sharing_key);
    if (groups == of_lane.by_sharing_key.end()) continue;
    for (const auto& [start, candidates] : groups->second) {
      consider(candidates.begin()->first, *candidates.begin()->second);
    }
  }
  return found;
}

std::optional<QueuedJob> JobQueue::Take(Lane lane, double now,
                                        const Places& places) {
  const Key hold = HoldBehind();
  Jobs& fresh = NewOf(lane).jobs;
  Jobs* from = &waiting_;
  // The first job that lacks only a place and has been overtaken too often.
  Key place_hold = kLast;
  auto found = FindWaiting(lane, now, hold, places, place_hold);
  const auto found_new = FindNew(lane, hold, places, place_hold);
  if (found_new != fresh.end() &&
      (found == waiting_.end() || found_new->first < found->first)) {
    from = &fresh;
    found = found_new;
  }
  if (found == from->end() || place_hold < found->first) return std::nullopt;
  QueuedJob job = Extract({from, found->first});
  Overtake(lane, KeyOf(job));
  for (auto& [key, waiting] : waiting_) {
    if (!(key < KeyOf(job))) break;
    const bool is_overtaken =
        waiting.cause == WaitCause::kMemory
            ? job.takes_memory
            : waiting.lane == lane && MayBeTried(waiting, now);
    if (is_overtaken) ++waiting.overtaken;
  }
  return job;
}

// The job with this key was taken: it has overtaken the jobs before it.
void JobQueue::Overtake(Lane lane, const Key& key) {
  NewJobs& of_lane = NewOf(lane);
  for (auto it = of_lane.jobs.begin();
       it != of_lane.jobs.end() && it->first < key; ++it) {
    if (++it->second.overtaken == kMostOvertaking) {
      of_lane.overtaken.insert(it->first);
    }
  }
}

std::vector<job::SharedPassCandidate> JobQueue::CandidatesOf(
    Lane lane, const std::string& sharing_key) const {
  const NewJobs& of_lane = NewOf(lane);
  const auto groups = of_lane.by_sharing_key.find(sharing_key);
  if (groups == of_lane.by_sharing_key.end()) return {};
  // The first kMostCandidates jobs of each start are enough.
  std::vector<std::pair<Key, const QueuedJob*>> jobs;
  for (const auto& [start, candidates] : groups->second) {
    auto end = candidates.begin();
    std::advance(end, std::min(candidates.size(), kMostCandidates));
    jobs.insert(jobs.end(), candidates.begin(), end);
  }
  std::sort(jobs.begin(), jobs.end());
  jobs.resize(std::min(jobs.size(), kMostCandidates));
  std::vector<job::SharedPassCandidate> candidates;
  candidates.reserve(jobs.size());
  for (const auto& [key, job] : jobs) candidates.push_back(job->sharing);
  return candidates;
}

const QueuedJob* JobQueue::FirstOfOthers(
    Lane lane, const std::set<std::string>& running_groups) const {
  int passed_over = 0;
  for (const auto& [key, job] : NewOf(lane).jobs) {
    if (!running_groups.contains(job.sharing.key)) return &job;
    if (++passed_over == kMostPassedOver) break;
  }
  return nullptr;
}

std::vector<QueuedJob> JobQueue::TakeBeginningTrials() {
  std::vector<QueuedJob> taken;
  for (const NewJobs& of_lane : new_) {
    for (const auto& [key, job] : of_lane.jobs) {
      if (job.begins_trial) taken.push_back(job);
    }
  }
  for (const QueuedJob& job : taken) Remove(job.id);
  return taken;
}

void JobQueue::Remove(const std::string& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return;
  Extract(found->second);
}

void JobQueue::RetryNow(WaitCause cause) {
  for (auto& [key, job] : waiting_) {
    if (job.cause == cause) job.retry_at = 0;
  }
}

std::optional<double> JobQueue::OldestSince() const {
  std::optional<double> oldest;
  if (!since_.empty()) oldest = *since_.begin();
  for (const auto& [key, job] : waiting_) {
    oldest = std::min(oldest.value_or(job.waits_since), job.waits_since);
  }
  return oldest;
}

double JobQueue::NextRetry(Lane lane, double now) const {
  double next = std::numeric_limits<double>::infinity();
  for (const auto& [key, job] : waiting_) {
    if (job.lane == lane && job.retry_at > now) {
      next = std::min(next, job.retry_at);
    }
  }
  return next;
}

}  // namespace hearth::server
