#include "engine/job/run/shared_pass.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/train/model_options.h"

// A group, step by step:
//   1. The thread of the first job that comes starts the driver's thread.
//   2. The driver waits a little for jobs that are expected, opens the data and
//      runs a TrainRun, as its host. At the run's boundaries, jobs that have
//      come get a member, and a first epoch if they may start anywhere.
//   3. A job's own thread makes all calls for the job: in Train it waits for a
//      call, makes it and reports its end, until the job has its result.
//   4. When no job is left, the driver returns the strategy, and looks once
//      more whether a job has come. Only then the last job's Train returns: so
//      the next job finds the strategy warm and the memory free.
// Of jobs on several machines, the group of rank 0 posts what it has decided
// before it acts (Post), and the groups of other ranks do the same (AwaitTurn).
// All ranks then call the jobs that they have in the same order. A job that a
// rank lacks has failed there, so that its calls fail on all ranks: nobody
// waits for it. A job that has yet to come is waited for, and given up after a
// while. When all jobs are asked to stop, the batch source is stopped; when
// only some are, they are detached at the next batch.

namespace hearth::job {

namespace {

// Fraction of an epoch's time that jobs wait for a new job in a place that has
// become free.
constexpr double kGatherPart = 0.05;
// Bytes of the random text of a convoy.
constexpr size_t kConvoyBytes = 16;

// Batch options that the jobs of a group have in common.
BatchOptions CommonData(BatchOptions data) {
  data.distinct_epochs = data.NumEpochKeys();
  data.epochs = std::min(data.epochs, data.distinct_epochs);
  data.first_epoch_key = 0;
  return data;
}

// A job is slow if it takes more than this many times the median.
constexpr double kSlow = 2;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::optional<size_t> FindSlowest(absl::Span<const EpochSeconds> jobs,
                                  double pass_seconds) {
  if (jobs.size() < 2) return std::nullopt;
  const auto slowest =
      std::max_element(jobs.begin(), jobs.end(),
                       [](const EpochSeconds& a, const EpochSeconds& b) {
                         return a.busy < b.busy;
                       });
  std::vector<double> others;
  for (auto it = jobs.begin(); it != jobs.end(); ++it) {
    if (it != slowest) others.push_back(it->busy);
  }
  const double waiting =
      slowest->waited_for * static_cast<double>(others.size());
  if (slowest->busy <= kSlow * Median(std::move(others)) ||
      waiting <= pass_seconds) {
    return std::nullopt;
  }
  return slowest - jobs.begin();
}

SharedPassMetrics::SharedPassMetrics(metrics::Registry& registry)
    : bytes_shared(registry.NewCounter(
          "hearth_convoy_bytes_shared_total",
          "Bytes that jobs did not have to read because they shared a pass.",
          {})),
      wait_seconds(registry.NewCounter(
          "hearth_convoy_wait_seconds_total",
          "Seconds that members of convoys waited for others, added up.", {})),
      members_(registry.NewGauge(
          "hearth_convoy_members",
          "Train jobs in convoys, including convoys of a single job.", {})) {}

void SharedPassMetrics::AddJobs(int64_t more) {
  absl::MutexLock lock(&mutex_);
  num_jobs_ += more;
  members_->Set(static_cast<double>(num_jobs_));
}

// Passes what the batch source reports to the observers of all jobs that have
// come. Used by the driver, while the jobs' threads wait.
class SharedPassGroup::AllObservers final : public Observer {
 public:
  explicit AllObservers(SharedPassGroup& group) : group_(group) {}

  void OnRunning() override {}
  void OnProgress(const Progress& progress) override {
    ForEach([&](Observer& observer) { observer.OnProgress(progress); });
  }
  absl::Status OnFirstEpochKey(int64_t /*key*/) override {
    return absl::OkStatus();
  }
  absl::Status OnEpoch(const EpochReport& /*epoch*/) override {
    return absl::OkStatus();
  }
  void OnDurable() override {
    ForEach([](Observer& observer) { observer.OnDurable(); });
  }
  void OnLog(Severity severity, const std::string& text) override {
    ForEach([&](Observer& observer) { observer.OnLog(severity, text); });
  }

 private:
  void ForEach(absl::FunctionRef<void(Observer&)> tell) {
    Slots slots;
    {
      absl::MutexLock lock(&group_.mutex_);
      slots = group_.Unfinished();
      for (Slot* slot : slots) slot->is_told = true;
    }
    for (const Slot* slot : slots) tell(slot->request.observer);
    absl::MutexLock lock(&group_.mutex_);
    for (Slot* slot : slots) {
      slot->is_told = false;
      slot->wake.Signal();
    }
  }

  SharedPassGroup& group_;
};

SharedPassGroup::~SharedPassGroup() { ForgetAll(); }

void SharedPassGroup::ForgetAll() {
  absl::MutexLock lock(&mutex_);
  expected_.clear();
  driver_.Signal();
}

bool SharedPassGroup::HasPlaceFor(const SharedPassCandidate& job) const {
  absl::MutexLock lock(&mutex_);
  if (expected_.contains(job.job)) return true;
  if (over_ || NumPlaces() >= static_cast<size_t>(options_.max_jobs)) {
    return false;
  }
  return !next_epoch_.has_value() || job.join || job.epoch == next_epoch_;
}

bool SharedPassGroup::Expect(const SharedPassCandidate& job) {
  if (!HasPlaceFor(job)) return false;
  absl::MutexLock lock(&mutex_);
  // The group may be over since HasPlaceFor.
  if (over_) return false;
  expected_.try_emplace(job.job, false);
  WakeAll();
  return true;
}

void SharedPassGroup::Forget(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  expected_.erase(job);
  // A group that no job has started is over when none is expected.
  if (!thread_.joinable() && NumPlaces() == 0) over_ = true;
  driver_.Signal();
  WakeAll();
}

bool SharedPassGroup::IsOver() const {
  absl::MutexLock lock(&mutex_);
  return over_;
}

size_t SharedPassGroup::NumPlaces() const {
  return expected_.size() + Unfinished().size();
}

SharedPassGroup::Slots SharedPassGroup::Unfinished() const {
  Slots slots;
  for (const auto& slot : slots_) {
    if (!slot->result.has_value()) slots.push_back(slot.get());
  }
  return slots;
}

absl::StatusOr<std::string> SharedPassGroup::ConvoyOf(
    const std::string& machines) {
  absl::MutexLock lock(&mutex_);
  if (convoy_.empty()) {
    HEARTH_ASSIGN_OR_RETURN(convoy_, RandomHex(kConvoyBytes));
    machines_ = machines;
  }
  return machines_ == machines ? convoy_ : "";
}

SharedPassResult SharedPassGroup::Train(const SharedPassRequest& request) {
  const Ranks* const ranks = request.environment.ranks;
  const bool follows = ranks != nullptr && !ranks->leads();
  Slot* slot = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (follows && known_.contains(ranks->board.attempt())) {
      return {.result = WaitForPeerError("came too late to share passes")};
    }
    part_ = ranks == nullptr ? Part::kAlone
            : follows        ? Part::kFollows
                             : Part::kLeads;
    // The group may be over since Expect, if all places were given up.
    if (!thread_.joinable() || over_) {
      over_ = false;
      environment_ = ranks == nullptr ? &request.environment : &ranks->process;
      thread_ = std::jthread([this] { Drive(); });
    }
    slot = slots_.emplace_back(std::make_unique<Slot>(request)).get();
    expected_.erase(request.options.name);
    driver_.Signal();
    WakeAll();
  }
  if (metrics_ != nullptr) metrics_->AddJobs(1);
  if (follows) {
    ranks->board.Listen([this](const PassTurn& turn) {
      absl::MutexLock lock(&mutex_);
      heard_.Add(turn);
      driver_.Signal();
    });
  }
  SharedPassResult end;
  {
    const std::stop_callback on_stop(request.stop, [this] { OnStop(); });
    absl::MutexLock lock(&mutex_);
    Work(*slot);
    end.result = *std::move(slot->result);
  }
  if (follows) ranks->board.Listen(nullptr);
  if (slot->trains_alone) {
    end.alone = slot->options;
    end.first_batch_seconds = slot->job->first_batch_seconds;
    end.peers = slot->job->peers;
  }
  if (metrics_ != nullptr) metrics_->AddJobs(-1);
  // The model is destroyed on the thread that has used it.
  slot->member.reset();
  absl::MutexLock lock(&mutex_);
  slots_.remove_if([&](const auto& one) { return one.get() == slot; });
  return end;
}

// Makes the calls of a slot until the job has its result, and another job keeps
// the driver busy or the driver has ended.
void SharedPassGroup::Work(Slot& slot) {
  while (true) {
    if (slot.call != nullptr) {
      const std::function<absl::Status()>& call = *slot.call;
      mutex_.Unlock();
      const double began = environment_->clock.SteadySeconds();
      const absl::Status status = CatchExceptions(call);
      const double now = environment_->clock.SteadySeconds();
      mutex_.Lock();
      slot.status = status;
      slot.done_seconds = now;
      slot.epoch_seconds.busy += now - began;
      slot.call = nullptr;
      driver_.Signal();
      continue;
    }
    if (slot.result.has_value() && !slot.is_told &&
        (over_ || NumPlaces() > 0)) {
      return;
    }
    slot.wake.Wait(&mutex_);
  }
}

// Ends jobs that are to stop and are not attached; stops the batch source if
// all jobs are to stop.
void SharedPassGroup::OnStop() {
  std::stop_source stop;
  {
    absl::MutexLock lock(&mutex_);
    const Slots slots = Unfinished();
    bool all = !slots.empty();
    for (Slot* slot : slots) {
      if (!slot->request.stop.stop_requested()) {
        all = false;
      } else if (!slot->attached) {
        SetResult(*slot, absl::CancelledError("stopped"));
      }
    }
    driver_.Signal();
    if (!all) return;
    stopping_ = true;
    stop = stop_;
  }
  stop.request_stop();
}

void SharedPassGroup::Drive() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      while (Unfinished().empty() && !expected_.empty()) driver_.Wait(&mutex_);
      if (Unfinished().empty()) {
        over_ = true;
        WakeAll();
        return;
      }
      next_epoch_.reset();
      stop_ = std::stop_source();
      stopping_ = false;
    }
    // Jobs may have been asked to stop before there was a source to stop.
    OnStop();
    const absl::Status status = CatchExceptions([this] { return RunData(); });
    if (status.ok()) continue;
    // An error of the data is the result of all attached jobs; jobs that came
    // later and were not asked to stop try again.
    absl::MutexLock lock(&mutex_);
    for (Slot* slot : Unfinished()) {
      if (!absl::IsCancelled(status) || slot->attached ||
          slot->request.stop.stop_requested()) {
        SetResult(*slot, status);
      }
    }
  }
}

// Opens the data, trains, and returns the strategy.
absl::Status SharedPassGroup::RunData() {
  TrainJobOptions options;
  JobEnvironment environment = *environment_;
  std::stop_token stop;
  {
    absl::MutexLock lock(&mutex_);
    const Slots slots = Unfinished();
    if (slots.empty()) return absl::OkStatus();
    // A copy: this job may be gone before it is attached.
    options = slots.front()->options;
    // All jobs have the same machines.
    environment.remote_rows = slots.front()->request.environment.remote_rows;
    stop = stop_.get_token();
  }
  const BatchOptions common = CommonData(options.data);
  const strategy::PipelineOptions pipeline = options.pipeline;
  num_epochs_ = common.distinct_epochs;
  // Without models, steps take no processors.
  max_steps_ = options.HasModel()
                   ? std::max(1, options_.processors /
                                     std::max(1, options.train.train_threads))
                   : options_.max_jobs;
  AllObservers observers(*this);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<BatchSource> source,
      BatchSource::Open(
          environment,
          {.data = common,
           .pipeline = pipeline,
           .training_only = !options.HasModel(),
           .embedding_width = train::HiddenWidth(options.train.model),
           .folder = options.directory,
           .job = &options},
          observers, stop));
  source_ = source.get();
  const absl::Status status = TrainRun({.source = *source,
                                        .memory = environment_->memory,
                                        .clock = environment_->clock,
                                        .host = *this})
                                  .Run();
  if (status.ok() || absl::IsCancelled(status)) source->ReturnStrategy();
  source_ = nullptr;
  // Attached jobs have their results already.
  return absl::OkStatus();
}

std::vector<AttachedJob*> SharedPassGroup::Attach(
    std::optional<int64_t> next_epoch) {
  Slots coming = AwaitJobs(next_epoch.has_value());
  // Jobs that are to stop before they begin have nothing to write.
  std::erase_if(coming, [this](Slot* slot) {
    if (!slot->request.stop.stop_requested()) return false;
    Finish(*slot, absl::CancelledError("stopped"));
    return true;
  });
  const std::vector<absl::Status> made =
      CallAll(coming, [this](Slot& slot) { return MakeMember(slot); });
  std::set<int64_t> epochs;
  Slots slots;
  for (size_t i = 0; i < coming.size(); ++i) {
    Slot& slot = *coming[i];
    if (!made[i].ok()) {
      Finish(slot, made[i]);
      continue;
    }
    slots.push_back(&slot);
    if (!slot.member->is_new()) epochs.insert(slot.NextEpoch());
  }
  // Jobs that may start anywhere start where the others are.
  if (!next_epoch.has_value() && !epochs.empty()) {
    next_epoch = FirstAfterLongestGap(epochs, num_epochs_);
  }
  std::vector<AttachedJob*> jobs;
  for (Slot* slot : slots) {
    if (next_epoch.has_value()) {
      const std::vector<absl::Status> joined =
          CallAll({slot}, [&](Slot& one) { return Join(one, *next_epoch); });
      if (!joined.front().ok()) {
        Finish(*slot, joined.front());
        continue;
      }
    }
    jobs.push_back(MakeJob(*slot));
    if (!next_epoch.has_value()) next_epoch = slot->NextEpoch();
  }
  if (!jobs.empty()) Post({.kind = PassTurn::Kind::kNone});
  epoch_began_ = environment_->clock.SteadySeconds();
  absl::MutexLock lock(&mutex_);
  next_epoch_.reset();
  if (next_epoch.has_value()) next_epoch_ = (*next_epoch + 1) % num_epochs_;
  return jobs;
}

AttachedJob* SharedPassGroup::MakeJob(Slot& slot) {
  return &slot.job.emplace(
      AttachedJob{.options = slot.options,
                  .observer = slot.request.observer,
                  .metrics = slot.request.metrics,
                  .member = *slot.member,
                  .stop = slot.request.stop,
                  .begin_seconds = slot.request.begin_seconds,
                  .is_running = slot.request.is_running,
                  .first_batch_seconds = slot.request.first_batch_seconds,
                  .peers = slot.request.peers});
}

SharedPassGroup::Slots SharedPassGroup::Attached() const {
  Slots slots = Unfinished();
  std::erase_if(slots, [](const Slot* slot) { return !slot->attached; });
  return slots;
}

SharedPassGroup::Slot* SharedPassGroup::FindAttempt(
    const std::string& attempt) const {
  for (Slot* slot : Unfinished()) {
    if (slot->ranks()->board.attempt() == attempt) return slot;
  }
  return nullptr;
}

// Tells the other ranks, if there are any, what comes next. All jobs tell it,
// of which any may fail.
void SharedPassGroup::Post(PassTurn turn) {
  Slots slots;
  {
    absl::MutexLock lock(&mutex_);
    if (part_ != Part::kLeads) return;
    slots = Attached();
  }
  turn.number = ++last_turn_;
  for (const Slot* slot : slots) {
    turn.jobs.push_back(
        {.attempt = slot->ranks()->board.attempt(),
         .first_epoch_key = slot->options.data.first_epoch_key});
  }
  for (const Slot* slot : slots) slot->ranks()->board.Post(turn);
}

void SharedPassGroup::OnPass(PassTurn::Kind kind, int64_t epoch,
                             absl::Span<AttachedJob* const> jobs) {
  PassTurn turn = {.kind = kind, .epoch = epoch};
  for (const AttachedJob* job : jobs) {
    if (const Ranks* const ranks = SlotOf(*job).ranks()) {
      turn.in_pass.push_back(ranks->board.attempt());
    }
  }
  Post(std::move(turn));
}

bool SharedPassGroup::follows() const {
  absl::MutexLock lock(&mutex_);
  return part_ == Part::kFollows;
}

std::optional<JobHost::Turn> SharedPassGroup::AwaitTurn() {
  const std::optional<PassTurn> told = AwaitTold();
  if (!told.has_value()) return std::nullopt;
  Turn turn = {.kind = told->kind, .epoch = told->epoch};
  const Slots coming = AwaitNamed(*told);
  const std::vector<absl::Status> made =
      CallAll(coming, [this](Slot& slot) { return MakeMember(slot); });
  for (size_t i = 0; i < coming.size(); ++i) {
    Slot& slot = *coming[i];
    if (!made[i].ok()) {
      Finish(slot, made[i]);
      continue;
    }
    for (const PassTurn::Job& job : told->jobs) {
      if (job.attempt == slot.ranks()->board.attempt()) {
        slot.options.data.first_epoch_key = job.first_epoch_key;
      }
    }
    turn.more.push_back(MakeJob(slot));
  }
  absl::MutexLock lock(&mutex_);
  for (const std::string& attempt : told->in_pass) {
    Slot* const slot = FindAttempt(attempt);
    if (slot != nullptr && slot->attached) turn.in_pass.push_back(&*slot->job);
  }
  return turn;
}

// Waits for the next turn. It is empty once an attached job is to stop; nullopt
// without jobs.
std::optional<PassTurn> SharedPassGroup::AwaitTold() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    const Slots attached = Attached();
    for (const Slot* slot : attached) {
      if (slot->request.stop.stop_requested()) return PassTurn();
    }
    if (Unfinished().empty()) return std::nullopt;
    std::optional<PassTurn> turn =
        heard_.Next(!attached.empty(), [this](const std::string& attempt) {
          mutex_.AssertHeld();
          return FindAttempt(attempt) != nullptr;
        });
    if (turn.has_value()) return turn;
    driver_.Wait(&mutex_);
  }
}

// The jobs of the turn that are to be attached, in order. Rank 0 has those that
// have not come yet, so that they come soon, or have failed here.
SharedPassGroup::Slots SharedPassGroup::AwaitNamed(const PassTurn& turn) {
  const Clock& clock = environment_->clock;
  const double start = clock.SteadySeconds();
  Slots coming;
  std::vector<std::string> lacking;
  PassBoard* board = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    for (const PassTurn::Job& job : turn.jobs) {
      while (!known_.contains(job.attempt)) {
        Slot* const slot = FindAttempt(job.attempt);
        const absl::Duration left =
            options_.gather - absl::Seconds(clock.SteadySeconds() - start);
        if (slot != nullptr) {
          slot->attached = true;
          coming.push_back(slot);
        } else if (left > absl::ZeroDuration()) {
          driver_.WaitWithTimeout(&mutex_, left);
          continue;
        } else {
          lacking.push_back(job.attempt);
        }
        known_.insert(job.attempt);
      }
    }
    const Slots attached = Attached();
    if (!attached.empty()) board = &attached.front()->ranks()->board;
  }
  for (const std::string& attempt : lacking) {
    if (board != nullptr) board->GiveUp(attempt);
  }
  return coming;
}

// Returns the jobs that have come. Waits a little for jobs that are expected,
// or that may take a place that has just become free.
SharedPassGroup::Slots SharedPassGroup::AwaitJobs(bool someone_attached) {
  const Clock& clock = environment_->clock;
  const double start = clock.SteadySeconds();
  absl::MutexLock lock(&mutex_);
  const bool may_come = someone_attached && has_free_place_;
  absl::Duration patience = options_.gather;
  if (may_come && expected_.empty()) {
    patience =
        std::min(patience, absl::Seconds(kGatherPart * (start - epoch_began_)));
  }
  const auto someone_comes = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& [job, waited] : expected_) {
      if (!waited) return true;
    }
    if (!may_come) return false;
    const Slots slots = Unfinished();
    return std::all_of(slots.begin(), slots.end(),
                       [](const Slot* slot) { return slot->attached; });
  };
  while (someone_comes() && !stopping_) {
    const absl::Duration left =
        patience - absl::Seconds(clock.SteadySeconds() - start);
    if (left <= absl::ZeroDuration()) break;
    driver_.WaitWithTimeout(&mutex_, left);
  }
  has_free_place_ = false;
  for (auto& [job, waited] : expected_) waited = true;
  Slots coming;
  for (Slot* slot : Unfinished()) {
    if (slot->attached) continue;
    if (stopping_ && !slot->request.stop.stop_requested()) continue;
    slot->attached = true;
    coming.push_back(slot);
  }
  return coming;
}

absl::Status SharedPassGroup::MakeMember(Slot& slot) {
  HEARTH_ASSIGN_OR_RETURN(slot.member,
                          NewMember({.environment = slot.request.environment,
                                     .options = slot.options,
                                     .observer = slot.request.observer,
                                     .metrics = slot.request.metrics,
                                     .memory = slot.request.memory,
                                     .stop = slot.request.stop},
                                    source_->dataset(), source_->passes()));
  HEARTH_ASSIGN_OR_RETURN(slot.first_wish, slot.member->Next());
  return absl::OkStatus();
}

// Lets a job that may start at any epoch, and has trained nothing yet, start
// with `epoch`.
absl::Status SharedPassGroup::Join(Slot& slot, int64_t epoch) {
  BatchOptions& data = slot.options.data;
  // A job of fewer epochs would not get to the epochs before `epoch`.
  if (!slot.options.join || !slot.member->is_new() ||
      data.first_epoch_key == epoch || data.epochs < num_epochs_) {
    return absl::OkStatus();
  }
  HEARTH_RETURN_IF_ERROR(slot.request.observer.OnFirstEpochKey(epoch));
  data.first_epoch_key = epoch;
  return absl::OkStatus();
}

std::vector<absl::Status> SharedPassGroup::ForAll(
    absl::Span<AttachedJob* const> jobs,
    absl::FunctionRef<absl::Status(AttachedJob&)> call) {
  Slots slots;
  for (const AttachedJob* job : jobs) slots.push_back(&SlotOf(*job));
  return CallAll(slots, [&](Slot& slot) { return call(*slot.job); });
}

std::vector<absl::Status> SharedPassGroup::CallAll(
    const Slots& slots, absl::FunctionRef<absl::Status(Slot&)> call) {
  std::vector<std::function<absl::Status()>> calls;
  for (Slot* slot : slots)
    calls.push_back([&call, slot] { return call(*slot); });
  std::vector<absl::Status> results;
  absl::MutexLock lock(&mutex_);
  size_t next = 0;
  while (true) {
    // A feed takes no processor: its client makes the steps.
    size_t called = 0;
    size_t busy = 0;
    for (const Slot* slot : slots) {
      if (slot->call == nullptr) continue;
      ++called;
      if (!slot->options.feed.has_value()) ++busy;
    }
    if (next == slots.size() && called == 0) break;
    if (next < slots.size() && (busy < static_cast<size_t>(max_steps_) ||
                                slots[next]->options.feed.has_value())) {
      slots[next]->call = &calls[next];
      slots[next]->wake.Signal();
      ++next;
      continue;
    }
    driver_.Wait(&mutex_);
  }
  double last = 0;
  double before_last = 0;
  Slot* slowest = nullptr;
  for (Slot* slot : slots) {
    if (slowest != nullptr && slot->done_seconds < last) {
      before_last = std::max(before_last, slot->done_seconds);
      continue;
    }
    before_last = last;
    last = slot->done_seconds;
    slowest = slot;
  }
  if (slots.size() > 1) {
    slowest->epoch_seconds.waited_for += last - before_last;
  }
  for (const Slot* slot : slots) {
    results.push_back(slot->status);
    if (metrics_ != nullptr) {
      metrics_->wait_seconds->Add(last - slot->done_seconds);
    }
  }
  return results;
}

void SharedPassGroup::Report(absl::Span<EndedEpoch> epochs) {
  if (options_.report == nullptr) {
    for (EndedEpoch& epoch : epochs) {
      epoch.status = CallAll({&SlotOf(epoch.job)}, [&](Slot& slot) {
                       return slot.request.observer.OnEpoch(epoch.report);
                     }).front();
    }
    return;
  }
  std::vector<JobEpoch> together;
  for (const EndedEpoch& epoch : epochs) {
    together.push_back({.job = epoch.job.options.name, .report = epoch.report});
  }
  options_.report(absl::MakeSpan(together));
  for (size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].status = together[i].status;
  }
}

// A job that was in the epoch has busy seconds.
AttachedJob* SharedPassGroup::PickSlowest(double pass_seconds) {
  Slots slots;
  std::vector<EpochSeconds> jobs;
  {
    absl::MutexLock lock(&mutex_);
    // A job that takes long may wait for other machines.
    if (part_ != Part::kAlone) return nullptr;
    for (Slot* slot : Unfinished()) {
      const EpochSeconds seconds = std::exchange(slot->epoch_seconds, {});
      if (!slot->job.has_value() || seconds.busy == 0) continue;
      slots.push_back(slot);
      jobs.push_back(seconds);
    }
  }
  const std::optional<size_t> found = FindSlowest(jobs, pass_seconds);
  if (!found.has_value() || options_.may_train_alone == nullptr) return nullptr;
  Slot& slowest = *slots[*found];
  if (!options_.may_train_alone(slowest.options.name)) return nullptr;
  slowest.trains_alone = true;
  static_cast<void>(CallAll({&slowest}, [&](Slot& slot) {
    slot.request.observer.OnLog(
        Severity::kInfo,
        absl::StrFormat("goes on by itself: %d jobs of equal data waited %.3g "
                        "s for it in the last epoch, and a pass of its own "
                        "takes %.3g s",
                        jobs.size() - 1, jobs[*found].waited_for,
                        pass_seconds));
    return absl::OkStatus();
  }));
  return &*slowest.job;
}

// A job that is expected would find the group without a source.
bool SharedPassGroup::MayLetGo() {
  absl::MutexLock lock(&mutex_);
  return part_ == Part::kAlone && NumPlaces() <= 1;
}

void SharedPassGroup::LetGo(AttachedJob& job) {
  SlotOf(job).trains_alone = true;
}

void SharedPassGroup::OnShared(int64_t bytes) {
  if (metrics_ != nullptr) {
    metrics_->bytes_shared->Add(static_cast<double>(bytes));
  }
}

void SharedPassGroup::Detach(AttachedJob& job,
                             absl::StatusOr<TrainReport> result) {
  Finish(SlotOf(job), std::move(result));
}

void SharedPassGroup::Finish(Slot& slot, absl::StatusOr<TrainReport> result) {
  absl::MutexLock lock(&mutex_);
  SetResult(slot, std::move(result));
}

void SharedPassGroup::SetResult(Slot& slot,
                                absl::StatusOr<TrainReport> result) {
  slot.result = std::move(result);
  has_free_place_ = true;
  if (part_ == Part::kFollows) known_.insert(slot.ranks()->board.attempt());
  WakeAll();
}

// Wakes the jobs' threads to check their conditions: see Work.
void SharedPassGroup::WakeAll() {
  for (const auto& slot : slots_) slot->wake.Signal();
}

SharedPassGroup::Slot& SharedPassGroup::SlotOf(const AttachedJob& job) {
  absl::MutexLock lock(&mutex_);
  return **std::find_if(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot->job.has_value() && &*slot->job == &job;
  });
}

SharedPassGroups::SharedPassGroups(SharedPassOptions options,
                                   metrics::Registry* registry)
    : options_(std::move(options)),
      metrics_(registry == nullptr
                   ? nullptr
                   : std::make_unique<SharedPassMetrics>(*registry)) {}

const void* SharedPassGroups::GroupWithPlaceFor(
    const SharedPassCandidate& job) const {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<SharedPassGroup>& group : groups_) {
    if (group->name() == job.key && group->HasPlaceFor(job)) {
      return group.get();
    }
  }
  return nullptr;
}

const void* SharedPassGroups::Expect(const SharedPassCandidate& job,
                                     bool may_begin) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = of_jobs_.find(job.job); found != of_jobs_.end()) {
    return found->second.get();
  }
  for (const std::shared_ptr<SharedPassGroup>& group : groups_) {
    if (group->name() == job.key && group->Expect(job)) {
      of_jobs_[job.job] = group;
      return group.get();
    }
  }
  if (!may_begin) return nullptr;
  groups_.remove_if([](const auto& group) { return group->IsOver(); });
  const std::shared_ptr<SharedPassGroup>& group = groups_.emplace_back(
      std::make_shared<SharedPassGroup>(options_, job.key, metrics_.get()));
  group->Expect(job);
  of_jobs_[job.job] = group;
  return group.get();
}

void SharedPassGroups::Forget(const std::string& job) {
  std::shared_ptr<SharedPassGroup> group;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found == of_jobs_.end()) return;
    group = std::move(found->second);
    of_jobs_.erase(found);
  }
  group->Forget(job);
}

absl::StatusOr<std::string> SharedPassGroups::ConvoyOf(
    const std::string& job, const std::string& machines) {
  std::shared_ptr<SharedPassGroup> group;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found == of_jobs_.end()) return "";
    group = found->second;
  }
  HEARTH_ASSIGN_OR_RETURN(std::string convoy, group->ConvoyOf(machines));
  if (convoy.empty()) Forget(job);
  return convoy;
}

void SharedPassGroups::ForgetAll() {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<SharedPassGroup>& group : groups_)
    group->ForgetAll();
}

void SharedPassGroups::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  of_jobs_.clear();
  // Destroying the groups joins their threads.
  groups_.clear();
}

absl::StatusOr<TrainReport> SharedPassGroups::Train(
    const SharedPassRequest& request) {
  const std::string& job = request.options.name;
  std::shared_ptr<SharedPassGroup> group;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found != of_jobs_.end()) group = found->second;
  }
  if (group == nullptr) {
    Expect({.job = job, .key = request.options.sharing_key, .epoch = {}});
    return Train(request);
  }
  SharedPassResult end = group->Train(request);
  while (end.alone.has_value() && absl::IsCancelled(end.result.status()) &&
         !request.stop.stop_requested()) {
    const TrainJobOptions options = *std::move(end.alone);
    {
      absl::MutexLock lock(&mutex_);
      group = std::make_shared<SharedPassGroup>(options_, /*name=*/"",
                                                metrics_.get());
      of_jobs_[job] = group;
    }
    end = group->Train({.environment = request.environment,
                        .options = options,
                        .observer = request.observer,
                        .metrics = request.metrics,
                        .memory = request.memory,
                        .stop = request.stop,
                        .begin_seconds = request.begin_seconds,
                        .is_running = true,
                        .first_batch_seconds = end.first_batch_seconds,
                        .peers = std::move(end.peers)});
  }
  return std::move(end.result);
}

}  // namespace hearth::job
