#include "engine/job/run/shared_pass.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/train/model_options.h"

// A convoy, step by step:
//   1. the thread of the first job that comes starts the driver's;
//   2. the driver waits a little for jobs that are expected, opens the data and
//      runs a TrainRun, of which it is the host: at its boundaries those that
//      have come get a member, and a first epoch if they may join anywhere;
//   3. what is to be done for a job, its own thread does, in Take: it waits for
//      a call, makes it, and says so, until its result is there;
//   4. when nobody is left the driver returns the strategy, and looks once
//      more whether somebody has come. Only then the last job's Take returns:
//      the next job finds the strategy warm and the memory free.
// When all jobs are asked to stop, the data run is; when some are, they leave
// at the next batch.

namespace hearth::job {

namespace {

// The part of an epoch that members wait for another one in a place that has
// become free.
constexpr double kGatherPart = 0.05;

// The data that all members have in common.
DataOptions CommonData(DataOptions data) {
  data.distinct_epochs = data.NumEpochKeys();
  data.epochs = std::min(data.epochs, data.distinct_epochs);
  data.first_epoch_key = 0;
  return data;
}

int64_t NextEpoch(const TrainJobOptions& options, const Member& member) {
  return options.data.EpochOfBatches(member.epoch());
}

// A member that takes longer than so many times the median is slow.
constexpr double kSlow = 2;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::optional<size_t> FindLaggard(absl::Span<const MemberSeconds> members,
                                  double pass_seconds) {
  if (members.size() < 2) return std::nullopt;
  const auto slowest =
      std::max_element(members.begin(), members.end(),
                       [](const MemberSeconds& a, const MemberSeconds& b) {
                         return a.busy < b.busy;
                       });
  std::vector<double> others;
  for (auto it = members.begin(); it != members.end(); ++it) {
    if (it != slowest) others.push_back(it->busy);
  }
  const double waiting =
      slowest->waited_for * static_cast<double>(others.size());
  if (slowest->busy <= kSlow * Median(std::move(others)) ||
      waiting <= pass_seconds) {
    return std::nullopt;
  }
  return slowest - members.begin();
}

ConvoyMetrics::ConvoyMetrics(metrics::Registry& registry)
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

void ConvoyMetrics::AddMembers(int64_t more) {
  absl::MutexLock lock(&mutex_);
  num_members_ += more;
  members_->Set(static_cast<double>(num_members_));
}

// Tells all jobs that have come what the data run has to say. The driver's;
// jobs' threads wait meanwhile.
class Convoy::Everyone final : public Observer {
 public:
  explicit Everyone(Convoy& convoy) : convoy_(convoy) {}

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
    Seats seats;
    {
      absl::MutexLock lock(&convoy_.mutex_);
      seats = convoy_.Unfinished();
      for (Seat* seat : seats) seat->is_told = true;
    }
    for (const Seat* seat : seats) tell(seat->ride.observer);
    absl::MutexLock lock(&convoy_.mutex_);
    for (Seat* seat : seats) {
      seat->is_told = false;
      seat->wake.Signal();
    }
  }

  Convoy& convoy_;
};

Convoy::~Convoy() { ForgetAll(); }

void Convoy::ForgetAll() {
  absl::MutexLock lock(&mutex_);
  expected_.clear();
  driver_.Signal();
}

bool Convoy::HasRoomFor(const Boarding& job) const {
  absl::MutexLock lock(&mutex_);
  if (expected_.contains(job.job)) return true;
  if (over_ || NumPlaces() >= static_cast<size_t>(options_.max_members)) {
    return false;
  }
  return !next_epoch_.has_value() || job.join || job.epoch == next_epoch_;
}

bool Convoy::Expect(const Boarding& job) {
  if (!HasRoomFor(job)) return false;
  absl::MutexLock lock(&mutex_);
  // It may have ended since.
  if (over_) return false;
  expected_.try_emplace(job.job, false);
  WakeAll();
  return true;
}

void Convoy::Forget(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  expected_.erase(job);
  // Nobody has come who could have begun.
  if (!thread_.joinable() && NumPlaces() == 0) over_ = true;
  driver_.Signal();
  WakeAll();
}

bool Convoy::IsOver() const {
  absl::MutexLock lock(&mutex_);
  return over_;
}

size_t Convoy::NumPlaces() const {
  return expected_.size() + Unfinished().size();
}

Convoy::Seats Convoy::Unfinished() const {
  Seats seats;
  for (const auto& seat : seats_) {
    if (!seat->result.has_value()) seats.push_back(seat.get());
  }
  return seats;
}

RideEnd Convoy::Take(const Ride& ride) {
  Seat* seat = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    // It may have ended since, if it was told to expect nobody.
    if (!thread_.joinable() || over_) {
      over_ = false;
      environment_ = &ride.environment;
      thread_ = std::jthread([this] { Drive(); });
    }
    seat = seats_.emplace_back(std::make_unique<Seat>(ride)).get();
    expected_.erase(ride.options.name);
    driver_.Signal();
    WakeAll();
  }
  if (metrics_ != nullptr) metrics_->AddMembers(1);
  RideEnd end;
  {
    const std::stop_callback on_stop(ride.stop, [this] { OnStop(); });
    absl::MutexLock lock(&mutex_);
    Work(*seat);
    end.result = *std::move(seat->result);
  }
  if (seat->goes_alone) {
    end.alone = seat->options;
    end.first_batch_seconds = seat->rider->first_batch_seconds;
    end.company = seat->rider->company;
  }
  if (metrics_ != nullptr) metrics_->AddMembers(-1);
  // The model goes on the thread that has used it.
  seat->member.reset();
  absl::MutexLock lock(&mutex_);
  seats_.remove_if([&](const auto& one) { return one.get() == seat; });
  return end;
}

// Makes the calls of a seat until it has its result, and others go on or the
// driver has come to its end.
void Convoy::Work(Seat& seat) {
  while (true) {
    if (seat.call != nullptr) {
      const std::function<absl::Status()>& call = *seat.call;
      mutex_.Unlock();
      const double began = environment_->clock.SteadySeconds();
      const absl::Status status = CatchExceptions(call);
      const double now = environment_->clock.SteadySeconds();
      mutex_.Lock();
      seat.status = status;
      seat.done_seconds = now;
      seat.epoch_seconds.busy += now - began;
      seat.call = nullptr;
      driver_.Signal();
      continue;
    }
    if (seat.result.has_value() && !seat.is_told &&
        (over_ || NumPlaces() > 0)) {
      return;
    }
    seat.wake.Wait(&mutex_);
  }
}

// One that has not come on board goes at once. When all are to stop, what reads
// for them is, too.
void Convoy::OnStop() {
  std::stop_source stop;
  {
    absl::MutexLock lock(&mutex_);
    const Seats seats = Unfinished();
    bool all = !seats.empty();
    for (Seat* seat : seats) {
      if (!seat->ride.stop.stop_requested()) {
        all = false;
      } else if (!seat->on_board) {
        SetResult(*seat, absl::CancelledError("stopped"));
      }
    }
    if (!all) return;
    stopping_ = true;
    stop = stop_;
    driver_.Signal();
  }
  stop.request_stop();
}

void Convoy::Drive() {
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
    // One may have been asked to stop before there was anything to stop.
    OnStop();
    const absl::Status status = CatchExceptions([this] { return RunData(); });
    if (status.ok()) continue;
    // The data's error is the result of all riders that were there, but those
    // that were not asked to stop try again.
    absl::MutexLock lock(&mutex_);
    for (Seat* seat : Unfinished()) {
      if (!absl::IsCancelled(status) || seat->on_board ||
          seat->ride.stop.stop_requested()) {
        SetResult(*seat, status);
      }
    }
  }
}

// From opening the data to returning the strategy.
absl::Status Convoy::RunData() {
  TrainJobOptions options;
  std::stop_token stop;
  {
    absl::MutexLock lock(&mutex_);
    const Seats seats = Unfinished();
    if (seats.empty()) return absl::OkStatus();
    // It may leave before it comes on board.
    options = seats.front()->options;
    stop = stop_.get_token();
  }
  const DataOptions common = CommonData(options.data);
  const strategy::PipelineOptions pipeline = options.pipeline;
  num_epochs_ = common.distinct_epochs;
  // Without a model there is nothing that processors could be short of.
  max_steps_ = options.HasModel()
                   ? std::max(1, options_.processors /
                                     std::max(1, options.train.train_threads))
                   : options_.max_members;
  Everyone everyone(*this);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<DataRun> data,
      DataRun::Open(
          *environment_,
          {.data = common,
           .pipeline = pipeline,
           .training_only = !options.HasModel(),
           .embedding_width = train::HiddenWidth(options.train.model)},
          everyone, stop));
  data_ = data.get();
  const absl::Status status = TrainRun({.data = *data,
                                        .memory = environment_->memory,
                                        .clock = environment_->clock,
                                        .host = *this})
                                  .Run();
  if (status.ok() || absl::IsCancelled(status)) data->ReturnStrategy();
  data_ = nullptr;
  // Riders have got theirs.
  return absl::OkStatus();
}

std::vector<Rider*> Convoy::Board(std::optional<int64_t> next_epoch) {
  Seats coming = AwaitSeats(next_epoch.has_value());
  // Those that are to stop have nothing to write.
  std::erase_if(coming, [this](Seat* seat) {
    if (!seat->ride.stop.stop_requested()) return false;
    Finish(*seat, absl::CancelledError("stopped"));
    return true;
  });
  const std::vector<absl::Status> made =
      CallAll(coming, [this](Seat& seat) { return MakeMember(seat); });
  std::set<int64_t> epochs;
  Seats seats;
  for (size_t i = 0; i < coming.size(); ++i) {
    Seat& seat = *coming[i];
    if (!made[i].ok()) {
      Finish(seat, made[i]);
      continue;
    }
    seats.push_back(&seat);
    if (!seat.member->is_new()) {
      epochs.insert(NextEpoch(seat.options, *seat.member));
    }
  }
  // Those that may join anywhere do where the others are.
  if (!next_epoch.has_value() && !epochs.empty()) {
    next_epoch = FirstAfterLongestGap(epochs, num_epochs_);
  }
  std::vector<Rider*> riders;
  for (Seat* seat : seats) {
    if (next_epoch.has_value()) {
      const std::vector<absl::Status> joined =
          CallAll({seat}, [&](Seat& one) { return Join(one, *next_epoch); });
      if (!joined.front().ok()) {
        Finish(*seat, joined.front());
        continue;
      }
    }
    seat->rider.emplace(
        Rider{.options = seat->options,
              .observer = seat->ride.observer,
              .metrics = seat->ride.metrics,
              .member = *seat->member,
              .stop = seat->ride.stop,
              .begin_seconds = seat->ride.begin_seconds,
              .is_running = seat->ride.is_running,
              .first_batch_seconds = seat->ride.first_batch_seconds,
              .company = seat->ride.company});
    riders.push_back(&*seat->rider);
    if (!next_epoch.has_value()) {
      next_epoch = NextEpoch(seat->options, *seat->member);
    }
  }
  epoch_began_ = environment_->clock.SteadySeconds();
  absl::MutexLock lock(&mutex_);
  next_epoch_.reset();
  if (next_epoch.has_value()) next_epoch_ = (*next_epoch + 1) % num_epochs_;
  return riders;
}

// Those that have come. Waits a little for those that are known to come, or
// that may take a place that has just become free.
Convoy::Seats Convoy::AwaitSeats(bool someone_on_board) {
  const Clock& clock = environment_->clock;
  const double start = clock.SteadySeconds();
  absl::MutexLock lock(&mutex_);
  const bool may_come = someone_on_board && has_free_place_;
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
    const Seats seats = Unfinished();
    return std::all_of(seats.begin(), seats.end(),
                       [](const Seat* seat) { return seat->on_board; });
  };
  while (someone_comes() && !stopping_) {
    const absl::Duration left =
        patience - absl::Seconds(clock.SteadySeconds() - start);
    if (left <= absl::ZeroDuration()) break;
    driver_.WaitWithTimeout(&mutex_, left);
  }
  has_free_place_ = false;
  for (auto& [job, waited] : expected_) waited = true;
  Seats coming;
  for (Seat* seat : Unfinished()) {
    if (seat->on_board) continue;
    if (stopping_ && !seat->ride.stop.stop_requested()) continue;
    seat->on_board = true;
    coming.push_back(seat);
  }
  return coming;
}

absl::Status Convoy::MakeMember(Seat& seat) {
  HEARTH_ASSIGN_OR_RETURN(seat.member,
                          Member::Make({.environment = seat.ride.environment,
                                        .options = seat.options,
                                        .observer = seat.ride.observer,
                                        .metrics = seat.ride.metrics,
                                        .memory = seat.ride.memory},
                                       data_->dataset(), data_->passes()));
  return absl::OkStatus();
}

// Lets a job that may join anywhere, and has trained nothing yet, begin with
// `epoch`.
absl::Status Convoy::Join(Seat& seat, int64_t epoch) {
  DataOptions& data = seat.options.data;
  // With fewer epochs it would not come round to those before.
  if (!seat.options.join || !seat.member->is_new() ||
      data.first_epoch_key == epoch || data.epochs < num_epochs_) {
    return absl::OkStatus();
  }
  HEARTH_RETURN_IF_ERROR(seat.ride.observer.OnFirstEpochKey(epoch));
  data.first_epoch_key = epoch;
  return absl::OkStatus();
}

std::vector<absl::Status> Convoy::ForAll(
    absl::Span<Rider* const> riders,
    absl::FunctionRef<absl::Status(Rider&)> call) {
  Seats seats;
  for (const Rider* rider : riders) seats.push_back(&SeatOf(*rider));
  return CallAll(seats, [&](Seat& seat) { return call(*seat.rider); });
}

std::vector<absl::Status> Convoy::CallAll(
    const Seats& seats, absl::FunctionRef<absl::Status(Seat&)> call) {
  std::vector<std::function<absl::Status()>> calls;
  for (Seat* seat : seats)
    calls.push_back([&call, seat] { return call(*seat); });
  std::vector<absl::Status> results;
  absl::MutexLock lock(&mutex_);
  size_t next = 0;
  while (true) {
    const auto busy = static_cast<size_t>(
        std::count_if(seats.begin(), seats.end(),
                      [](const Seat* seat) { return seat->call != nullptr; }));
    if (next == seats.size() && busy == 0) break;
    if (next < seats.size() && busy < static_cast<size_t>(max_steps_)) {
      seats[next]->call = &calls[next];
      seats[next]->wake.Signal();
      ++next;
      continue;
    }
    driver_.Wait(&mutex_);
  }
  double last = 0;
  double before_last = 0;
  Seat* slowest = nullptr;
  for (Seat* seat : seats) {
    if (slowest != nullptr && seat->done_seconds < last) {
      before_last = std::max(before_last, seat->done_seconds);
      continue;
    }
    before_last = last;
    last = seat->done_seconds;
    slowest = seat;
  }
  if (seats.size() > 1) {
    slowest->epoch_seconds.waited_for += last - before_last;
  }
  for (const Seat* seat : seats) {
    results.push_back(seat->status);
    if (metrics_ != nullptr) {
      metrics_->wait_seconds->Add(last - seat->done_seconds);
    }
  }
  return results;
}

void Convoy::Report(absl::Span<EndedEpoch> epochs) {
  if (options_.report == nullptr) {
    for (EndedEpoch& epoch : epochs) {
      epoch.status = CallAll({&SeatOf(epoch.rider)}, [&](Seat& seat) {
                       return seat.ride.observer.OnEpoch(epoch.report);
                     }).front();
    }
    return;
  }
  std::vector<JobEpoch> together;
  for (const EndedEpoch& epoch : epochs) {
    together.push_back(
        {.job = epoch.rider.options.name, .report = epoch.report});
  }
  options_.report(absl::MakeSpan(together));
  for (size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].status = together[i].status;
  }
}

// Those that were in the epoch have done something in it.
Rider* Convoy::PickLaggard(double pass_seconds) {
  Seats seats;
  std::vector<MemberSeconds> members;
  {
    absl::MutexLock lock(&mutex_);
    for (Seat* seat : Unfinished()) {
      const MemberSeconds seconds = std::exchange(seat->epoch_seconds, {});
      if (!seat->rider.has_value() || seconds.busy == 0) continue;
      seats.push_back(seat);
      members.push_back(seconds);
    }
  }
  const std::optional<size_t> found = FindLaggard(members, pass_seconds);
  if (!found.has_value() || options_.may_leave == nullptr) return nullptr;
  Seat& laggard = *seats[*found];
  if (!options_.may_leave(laggard.options.name)) return nullptr;
  laggard.goes_alone = true;
  static_cast<void>(CallAll({&laggard}, [&](Seat& seat) {
    seat.ride.observer.OnLog(
        Severity::kInfo,
        absl::StrFormat("goes on by itself: %d jobs of equal data waited %.3g "
                        "s for it in the last epoch, and a pass of its own "
                        "takes %.3g s",
                        members.size() - 1, members[*found].waited_for,
                        pass_seconds));
    return absl::OkStatus();
  }));
  return &*laggard.rider;
}

void Convoy::OnShared(int64_t bytes) {
  if (metrics_ != nullptr) {
    metrics_->bytes_shared->Add(static_cast<double>(bytes));
  }
}

void Convoy::Leave(Rider& rider, absl::StatusOr<TrainReport> result) {
  Finish(SeatOf(rider), std::move(result));
}

void Convoy::Finish(Seat& seat, absl::StatusOr<TrainReport> result) {
  absl::MutexLock lock(&mutex_);
  SetResult(seat, std::move(result));
}

void Convoy::SetResult(Seat& seat, absl::StatusOr<TrainReport> result) {
  seat.result = std::move(result);
  has_free_place_ = true;
  WakeAll();
}

// Wakes the threads of jobs, since their condition may have come: see Work.
void Convoy::WakeAll() {
  for (const auto& seat : seats_) seat->wake.Signal();
}

Convoy::Seat& Convoy::SeatOf(const Rider& rider) {
  absl::MutexLock lock(&mutex_);
  return **std::find_if(seats_.begin(), seats_.end(), [&](const auto& seat) {
    return seat->rider.has_value() && &*seat->rider == &rider;
  });
}

Convoys::Convoys(ConvoyOptions options, metrics::Registry* registry)
    : options_(std::move(options)),
      metrics_(registry == nullptr
                   ? nullptr
                   : std::make_unique<ConvoyMetrics>(*registry)) {}

const void* Convoys::RoomFor(const Boarding& job) const {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Convoy>& convoy : convoys_) {
    if (convoy->name() == job.convoy && convoy->HasRoomFor(job)) {
      return convoy.get();
    }
  }
  return nullptr;
}

const void* Convoys::Expect(const Boarding& job, bool may_begin) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = of_jobs_.find(job.job); found != of_jobs_.end()) {
    return found->second.get();
  }
  for (const std::shared_ptr<Convoy>& convoy : convoys_) {
    if (convoy->name() == job.convoy && convoy->Expect(job)) {
      of_jobs_[job.job] = convoy;
      return convoy.get();
    }
  }
  if (!may_begin) return nullptr;
  convoys_.remove_if([](const auto& convoy) { return convoy->IsOver(); });
  const std::shared_ptr<Convoy>& convoy = convoys_.emplace_back(
      std::make_shared<Convoy>(options_, job.convoy, metrics_.get()));
  convoy->Expect(job);
  of_jobs_[job.job] = convoy;
  return convoy.get();
}

void Convoys::Forget(const std::string& job) {
  std::shared_ptr<Convoy> convoy;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found == of_jobs_.end()) return;
    convoy = std::move(found->second);
    of_jobs_.erase(found);
  }
  convoy->Forget(job);
}

void Convoys::ForgetAll() {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Convoy>& convoy : convoys_) convoy->ForgetAll();
}

void Convoys::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  of_jobs_.clear();
  // Their threads end before they do.
  convoys_.clear();
}

absl::StatusOr<TrainReport> Convoys::Take(const Ride& ride) {
  const std::string& job = ride.options.name;
  std::shared_ptr<Convoy> convoy;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found != of_jobs_.end()) convoy = found->second;
  }
  if (convoy == nullptr) {
    Expect({.job = job, .convoy = ride.options.convoy, .epoch = {}});
    return Take(ride);
  }
  RideEnd end = convoy->Take(ride);
  if (!end.alone.has_value() || ride.stop.stop_requested()) {
    return std::move(end.result);
  }
  {
    absl::MutexLock lock(&mutex_);
    convoy = std::make_shared<Convoy>(options_, /*name=*/"", metrics_.get());
    of_jobs_[job] = convoy;
  }
  return convoy
      ->Take({.environment = ride.environment,
              .options = *end.alone,
              .observer = ride.observer,
              .metrics = ride.metrics,
              .memory = ride.memory,
              .stop = ride.stop,
              .begin_seconds = ride.begin_seconds,
              .is_running = true,
              .first_batch_seconds = end.first_batch_seconds,
              .company = std::move(end.company)})
      .result;
}

}  // namespace hearth::job
