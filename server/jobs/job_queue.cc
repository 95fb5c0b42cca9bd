#include "server/jobs/job_queue.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "server/mapping/spec_mapping.h"
#include "server/mapping/strategy_mapping.h"
#include "server/storage/job_id.h"

namespace hearth::server {
namespace {

// Behind all jobs.
constexpr std::pair<int, int64_t> kLast = {std::numeric_limits<int>::max(), 0};

// Verification and the export of a model hold no more than a few blocks.
bool TakesMemory(const v1::JobSpec& spec) {
  return !spec.has_verify() && !spec.has_export_();
}

// Jobs that end give it back, sooner or later.
bool IsHeldByJobs(WaitCause cause) {
  return cause == WaitCause::kMemory || cause == WaitCause::kPlanSpace;
}

}  // namespace

Lane LaneOf(const v1::JobSpec& spec) {
  return spec.has_train() || spec.has_prepare() || spec.has_evaluate()
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
    // It needs no epoch.
    queued.boarding = {.job = job.id(),
                       .convoy = ConvoyOf(job.spec().evaluate().train()),
                       .epoch = {}};
  }
  if (job.spec().has_train()) {
    const v1::TrainJobSpec& spec = job.spec().train();
    queued.boarding = {.job = job.id(), .convoy = ConvoyOf(spec), .epoch = {}};
    queued.makes_plan = !job.has_start_time() && (MakesPlans(spec.data()) ||
                                                  spec.data().has_partition());
    // Where one that has begun goes on, its checkpoint knows.
    if (!job.has_start_time()) {
      queued.boarding.epoch = spec.data().first_epoch_key();
      queued.boarding.join = spec.join();
    }
  }
  return queued;
}

std::string QueuedJob::LogName() const {
  return trace_id.empty() ? id : absl::StrCat(id, " [", trace_id, "]");
}

JobQueue::JobQueue(WaitOptions options,
                   std::function<job::MemoryRoom(uint64_t)> room,
                   std::function<bool(uint64_t)> plan_room)
    : options_(options),
      room_(std::move(room)),
      plan_room_(std::move(plan_room)) {}

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
  Jobs& jobs = NewOf(job.lane);
  const Key key = KeyOf(job);
  keys_[job.id] = {&jobs, key};
  since_.insert(job.queued_since);
  if (!job.takes_memory) ++without_memory_[static_cast<size_t>(job.lane)];
  jobs[key] = std::move(job);
}

QueuedJob JobQueue::Extract(const Place& place) {
  const auto [jobs, key] = place;
  const auto found = jobs->find(key);
  QueuedJob job = std::move(found->second);
  jobs->erase(found);
  keys_.erase(job.id);
  if (jobs == &waiting_) return job;
  since_.erase(since_.find(job.queued_since));
  if (!job.takes_memory) --without_memory_[static_cast<size_t>(job.lane)];
  return job;
}

bool JobQueue::MayWait(const QueuedJob& job, WaitCause cause,
                       double now) const {
  return IsHeldByJobs(cause) || job.tries == 0 ||
         now - job.waits_since < options_.limit_seconds;
}

void JobQueue::AddWaiting(QueuedJob job, WaitCause cause, uint64_t needed_bytes,
                          double now) {
  if (IsHeldByJobs(cause) || job.tries == 0) job.waits_since = now;
  if (cause != WaitCause::kMemory || job.cause != cause) job.overtaken = 0;
  job.cause = cause;
  job.needed_bytes = needed_bytes;
  job.retry_at = now + Pause(job.tries++);
  PutBack(std::move(job));
}

double JobQueue::Pause(int tries) const {
  return std::min(std::ldexp(options_.first_pause_seconds, tries),
                  options_.longest_pause_seconds);
}

bool JobQueue::MayBeTried(const QueuedJob& job, double now) const {
  switch (job.cause) {
    case WaitCause::kMemory:
      return room_(job.needed_bytes) == job::MemoryRoom::kFree;
    case WaitCause::kPlanSpace:
      return plan_room_(job.needed_bytes);
    default:
      return now >= job.retry_at;
  }
}

// The first job that has been overtaken too often; those behind it that take
// memory are held. Memory of other processes is not worth holding them: they
// would not free it.
JobQueue::Key JobQueue::HoldBehind() const {
  for (const auto& [key, job] : waiting_) {
    if (job.cause == WaitCause::kMemory && job.overtaken >= kMostOvertaking &&
        room_(job.needed_bytes) != job::MemoryRoom::kHeldByOthers) {
      return key;
    }
  }
  return kLast;
}

JobQueue::Jobs::iterator JobQueue::FindWaiting(Lane lane, double now,
                                               const Key& hold,
                                               HasPlace has_place,
                                               Key& place_hold) {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    QueuedJob& job = it->second;
    if (!MayBeTried(job, now)) {
      // Memory of other processes comes back without a word: it is looked for
      // again and again.
      if (now >= job.retry_at) job.retry_at = now + Pause(job.tries++);
      continue;
    }
    const bool held = job.takes_memory && hold < it->first;
    if (job.lane != lane || held) continue;
    if (has_place(job)) return it;
    if (job.overtaken >= kMostOvertaking) {
      place_hold = it->first;
      break;
    }
  }
  return waiting_.end();
}

JobQueue::Jobs::iterator JobQueue::FindNew(Lane lane, const Key& hold,
                                           HasPlace has_place,
                                           Key& place_hold) {
  Jobs& jobs = NewOf(lane);
  for (auto it = jobs.begin(); it != jobs.end(); ++it) {
    const QueuedJob& job = it->second;
    if (hold < it->first && job.takes_memory) {
      if (without_memory_[static_cast<size_t>(lane)] == 0) break;
      continue;
    }
    if (has_place(job)) return it;
    if (job.overtaken >= kMostOvertaking) {
      place_hold = std::min(place_hold, it->first);
      break;
    }
  }
  return jobs.end();
}

std::optional<QueuedJob> JobQueue::Take(Lane lane, double now,
                                        HasPlace has_place) {
  const Key hold = HoldBehind();
  Jobs* from = &waiting_;
  // One that lacks only a place, and has been overtaken too often.
  Key place_hold = kLast;
  auto found = FindWaiting(lane, now, hold, has_place, place_hold);
  const auto found_new = FindNew(lane, hold, has_place, place_hold);
  if (found_new != NewOf(lane).end() &&
      (found == waiting_.end() || found_new->first < found->first)) {
    from = &NewOf(lane);
    found = found_new;
  }
  if (found == from->end() || place_hold < found->first) return std::nullopt;
  QueuedJob job = Extract({from, found->first});
  for (auto it = NewOf(lane).begin();
       it != NewOf(lane).end() && it->first < KeyOf(job); ++it) {
    ++it->second.overtaken;
  }
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

std::vector<job::Boarding> JobQueue::MembersOf(
    Lane lane, const std::string& convoy) const {
  std::vector<job::Boarding> members;
  for (const auto& [key, job] : new_[static_cast<size_t>(lane)]) {
    if (members.size() == kMostMembers) break;
    if (job.boarding.convoy == convoy) members.push_back(job.boarding);
  }
  return members;
}

const QueuedJob* JobQueue::NextOf(
    Lane lane, absl::FunctionRef<bool(const QueuedJob&)> passes_over) const {
  size_t passed = 0;
  for (const auto& [key, job] : new_[static_cast<size_t>(lane)]) {
    if (!passes_over(job)) return &job;
    if (++passed > kMostMembers) break;
  }
  return nullptr;
}

std::vector<QueuedJob> JobQueue::TakeBeginningTrials() {
  std::vector<QueuedJob> taken;
  for (const Jobs& jobs : new_) {
    for (const auto& [key, job] : jobs) {
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
