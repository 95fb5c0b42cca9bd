#include "engine/feed/channel.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status.h"

namespace hearth::feed {
namespace {

// More than there are batches in a lifetime.
constexpr int64_t kMostCopies = int64_t{1} << 50;

absl::Status DrainError() {
  return absl::UnavailableError(
      "hearthd is draining: no epoch begins, and no request is answered");
}

}  // namespace

Channel::Channel(const Clock& clock, std::function<void()> wake)
    : clock_(clock),
      wake_(std::move(wake)),
      last_seconds_(clock.SteadySeconds()),
      last_sign_(last_seconds_),
      client_gone_at_(last_sign_) {}

absl::Status Channel::Connect(std::shared_ptr<Client> client) {
  {
    absl::MutexLock lock(&mutex_);
    if (client_ != nullptr) {
      return absl::AlreadyExistsError("the feed has a client already");
    }
    if (end_.has_value()) {
      return absl::FailedPreconditionError("the feed has ended");
    }
    client_ = std::move(client);
    // Runs may still be in passes of the client before, whose numbers differ.
    first_pass_ = last_pass_;
    SendWelcome();
  }
  NoteSign();
  return absl::OkStatus();
}

void Channel::Disconnect(const Client& client) {
  // Given back without the lock.
  std::shared_ptr<void> memory;
  {
    absl::MutexLock lock(&mutex_);
    // It may have been lost before.
    if (client_.get() == &client) LoseClient();
    if (held_.empty()) memory = std::move(held_memory_);
  }
  NoteSign();
}

void Channel::SendWelcome() {
  if (client_ == nullptr || !welcome_.has_value()) return;
  is_welcomed_ = true;
  if (!client_->Send(*welcome_).ok()) LoseClient();
}

// The client may have kept its maps of the slots that it held: their memory is
// given to no other batch.
void Channel::LoseClient() {
  for (auto& [id, held] : held_) held.slot->Retire();
  held_.clear();
  client_ = nullptr;
  is_welcomed_ = false;
  ForgetPass();
  has_yielded_ = false;
  last_release_.reset();
  step_seconds_ = 0;
  client_gone_at_ = clock_.SteadySeconds();
}

void Channel::ForgetPass() {
  open_.reset();
  requests_.clear();
  partial_.clear();
  changed_.SignalAll();
}

absl::Status Channel::Open(const OpenPass& pass) {
  if (pass.epoch < 0 || pass.next_batch < 0 || pass.number > kMostPasses) {
    return absl::InvalidArgumentError(
        "numbers of a pass must not be negative, or too large");
  }
  {
    absl::MutexLock lock(&mutex_);
    const uint64_t number = first_pass_ + pass.number;
    if (number <= last_pass_) {
      return absl::InvalidArgumentError(
          absl::StrCat("pass ", pass.number, " was opened after pass ",
                       last_pass_ - first_pass_, ": numbers must ascend"));
    }
    last_pass_ = number;
    ForgetPass();
    open_ = pass;
    open_->number = number;
    const bool is_refused =
        is_draining_ && (pass.split == Split::kRequests ||
                         (pass.split == Split::kTrain && pass.epoch != epoch_));
    if (pass.split == Split::kTrain && !is_refused) epoch_ = pass.epoch;
    // The job gives up its place, however often the client asks again.
    has_yielded_ = is_refused;
    if (is_refused) SendEnd(DrainError());
  }
  NoteSign();
  return absl::OkStatus();
}

void Channel::Close(uint64_t pass) {
  {
    absl::MutexLock lock(&mutex_);
    if (!open_.has_value() || open_->number != first_pass_ + pass) return;
    if (open_->split == Split::kTrain) epoch_.reset();
    ForgetPass();
  }
  NoteSign();
}

absl::Status Channel::Request(uint64_t pass, absl::Span<const uint64_t> nodes,
                              bool goes_on) {
  {
    absl::MutexLock lock(&mutex_);
    if (pass > last_pass_ - first_pass_) {
      return absl::InvalidArgumentError(
          absl::StrCat("pass ", pass, " was never opened"));
    }
    if (!open_.has_value() || open_->number != first_pass_ + pass) {
      return absl::OkStatus();
    }
    if (open_->split != Split::kRequests) {
      return absl::InvalidArgumentError(
          absl::StrCat("pass ", pass, " is over a split, not over requests"));
    }
    if (!batch_size_.has_value()) {
      return absl::FailedPreconditionError("requests come after the welcome");
    }
    // Nothing follows one that ends the pass.
    if (!requests_.empty() && !requests_.back().ok()) return absl::OkStatus();
    const auto space = static_cast<size_t>(*batch_size_ + 1) - partial_.size();
    nodes = nodes.subspan(0, space);
    partial_.insert(partial_.end(), nodes.begin(), nodes.end());
    if (goes_on) return absl::OkStatus();
    if (is_draining_ && requests_.empty()) {
      has_yielded_ = true;
      SendEnd(DrainError());
      return absl::OkStatus();
    }
    size_t seeds = partial_.size();
    for (const SeedRequest& request : requests_) seeds += request->size();
    if (is_draining_) {
      requests_.emplace_back(DrainError());
    } else if (requests_.size() < kMostRequests &&
               seeds <=
                   static_cast<size_t>(kMostRequestedBatches * *batch_size_)) {
      requests_.emplace_back(std::move(partial_));
    } else {
      requests_.emplace_back(absl::ResourceExhaustedError(absl::StrCat(
          "request ", open_->next_batch + std::ssize(requests_), ": ",
          requests_.size(), " others wait for their batches")));
    }
    partial_.clear();
    has_yielded_ = false;
  }
  NoteSign();
  return absl::OkStatus();
}

absl::Status Channel::Release(absl::Span<const uint64_t> slots) {
  // Slots and memory are given back without the lock.
  std::vector<Held> released;
  std::shared_ptr<void> memory;
  {
    absl::MutexLock lock(&mutex_);
    for (const uint64_t slot : slots) {
      const auto found = held_.find(slot);
      if (found == held_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("slot ", slot, " was released, and not held"));
      }
      released.push_back(std::move(found->second));
      held_.erase(found);
    }
    if (held_.empty()) memory = std::move(held_memory_);
    const double now = clock_.SteadySeconds();
    if (last_release_.has_value()) {
      // Time in which the client was away is no step.
      const double step = std::min(now - *last_release_, Patience());
      step_seconds_ = std::max(step_seconds_ / 2, step);
    }
    last_release_ = now;
  }
  NoteSign();
  return absl::OkStatus();
}

void Channel::Yield() {
  {
    absl::MutexLock lock(&mutex_);
    has_yielded_ = true;
  }
  NoteSign();
}

void Channel::Bye() {
  {
    absl::MutexLock lock(&mutex_);
    said_bye_ = true;
    ForgetPass();
  }
  NoteSign();
}

void Channel::AddSeconds(const ClientSeconds& more) {
  absl::MutexLock lock(&mutex_);
  // What a client says is at most what can have been since it spoke last.
  const double now = clock_.SteadySeconds();
  const double most = now - std::exchange(last_seconds_, now);
  seconds_.wait += std::clamp(more.wait, 0.0, most);
  seconds_.script += std::clamp(more.script, 0.0, most);
  seconds_.copies = std::min(
      seconds_.copies + std::clamp<int64_t>(more.copies, 0, kMostCopies),
      kMostCopies);
}

absl::Status Channel::AddEpoch(ReportedEpoch epoch) {
  {
    absl::MutexLock lock(&mutex_);
    if (epochs_.size() >= kMostEpochs) {
      return absl::ResourceExhaustedError(
          "too many epochs were reported at a time");
    }
    epochs_.push_back(std::move(epoch));
  }
  NoteSign();
  return absl::OkStatus();
}

void Channel::NoteSign() {
  std::function<void()> on_change;
  {
    absl::MutexLock lock(&mutex_);
    last_sign_ = clock_.SteadySeconds();
    changed_.SignalAll();
    on_change = welcome_.has_value() ? on_change_ : wake_;
  }
  if (on_change) on_change();
}

Channel::Demand Channel::demand(std::optional<OpenPass>& pass) const {
  absl::MutexLock lock(&mutex_);
  pass.reset();
  if (said_bye_) return Demand::kDone;
  const bool is_idle = open_.has_value() && open_->split == Split::kRequests &&
                       requests_.empty();
  if (client_ != nullptr && open_.has_value() && HasCredit() &&
      !(is_idle && IsAway())) {
    pass = open_;
    pass->end_batch = pass->next_batch + std::ssize(requests_);
    return Demand::kPass;
  }
  return IsAway() ? Demand::kAway : Demand::kNothing;
}

// A client that waits for its first welcome is not away.
bool Channel::IsAway() const {
  if (client_ != nullptr && !is_welcomed_) return false;
  return has_yielded_ || clock_.SteadySeconds() - last_sign_ >= Patience();
}

// A script whose batches take long is not away while it works on one.
double Channel::Patience() const {
  return std::max(kPatienceSeconds, 3 * step_seconds_);
}

int64_t Channel::HeldBatches() const {
  std::set<int64_t> batches;
  for (const auto& [id, held] : held_) batches.insert(held.batch);
  return static_cast<int64_t>(batches.size());
}

bool Channel::HasCredit() const {
  return !credits_.has_value() || HeldBatches() < *credits_;
}

void Channel::SetOnChange(std::function<void()> on_change) {
  absl::MutexLock lock(&mutex_);
  on_change_ = std::move(on_change);
}

void Channel::SetReady(const Welcome& welcome,
                       std::vector<std::shared_ptr<SlotPool>> pools) {
  absl::MutexLock lock(&mutex_);
  welcome_ = welcome;
  pools_ = std::move(pools);
  credits_ = welcome.credits;
  batch_size_ = welcome.batch_size;
  last_sign_ = clock_.SteadySeconds();
  SendWelcome();
}

void Channel::SetNotReady(std::shared_ptr<void> memory) {
  // Destroyed without the lock.
  std::vector<std::shared_ptr<SlotPool>> pools;
  absl::MutexLock lock(&mutex_);
  pools.swap(pools_);
  welcome_.reset();
  on_change_ = nullptr;
  if (!held_.empty()) held_memory_.swap(memory);
}

bool Channel::AwaitCredit(uint64_t pass, std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  while (!stop.stop_requested() && client_ != nullptr && open_.has_value() &&
         open_->number == pass) {
    if (HasCredit()) return true;
    if (IsAway()) return false;
    const double left = last_sign_ + Patience() - clock_.SteadySeconds();
    changed_.WaitWithTimeout(&mutex_, absl::Seconds(left));
  }
  return false;
}

std::optional<SeedRequest> Channel::AwaitRequest(uint64_t pass, int64_t number,
                                                 double until,
                                                 std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  while (!stop.stop_requested() && client_ != nullptr && open_.has_value() &&
         open_->number == pass) {
    const int64_t index = number - open_->next_batch;
    if (index < 0) break;
    if (index < std::ssize(requests_)) {
      return requests_[static_cast<size_t>(index)];
    }
    const double now = clock_.SteadySeconds();
    if (now >= until || IsAway()) break;
    changed_.WaitWithTimeout(
        &mutex_, absl::Seconds(std::min(until, last_sign_ + Patience()) - now));
  }
  return std::nullopt;
}

void Channel::Deliver(const OutgoingBatch& batch) {
  absl::MutexLock lock(&mutex_);
  if (client_ == nullptr || !open_.has_value() || open_->number != batch.pass) {
    return;
  }
  for (const std::shared_ptr<Slot>& slot : {batch.rows, batch.rest}) {
    held_[slot->id()] = {slot, num_delivered_};
  }
  open_->next_batch = batch.number + 1;
  if (!requests_.empty()) requests_.pop_front();
  ++open_->num_batches;
  ++num_delivered_;
  // From now on it is the client's turn.
  last_sign_ = clock_.SteadySeconds();
  OutgoingBatch sent = batch;
  sent.pass -= first_pass_;
  if (!client_->Send(sent).ok()) LoseClient();
}

std::optional<OpenPass> Channel::open_pass() const {
  absl::MutexLock lock(&mutex_);
  return open_;
}

void Channel::Skip(uint64_t pass) {
  absl::MutexLock lock(&mutex_);
  if (open_.has_value() && open_->number == pass) ++open_->next_batch;
}

void Channel::EndPass(uint64_t pass, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!open_.has_value() || open_->number != pass) return;
  last_sign_ = clock_.SteadySeconds();
  if (open_->split == Split::kTrain) epoch_.reset();
  SendEnd(status);
}

// REQUIRES: a pass is open.
void Channel::SendEnd(const absl::Status& status) {
  OpenPass ended = *open_;
  ended.number -= first_pass_;
  ForgetPass();
  if (client_ != nullptr && !client_->SendEnd(ended, status).ok()) LoseClient();
}

void Channel::SetDraining(bool is_draining) {
  absl::MutexLock lock(&mutex_);
  is_draining_ = is_draining;
}

void Channel::End(const absl::Status& status) {
  std::shared_ptr<Client> client;
  {
    absl::MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    end_ = status;
    ForgetPass();
    on_change_ = nullptr;
    client = client_;
    changed_.SignalAll();
  }
  if (client != nullptr && !status.ok()) client->SendError(status);
}

void Channel::AddPass(Split split, const strategy::PassReport& report) {
  absl::MutexLock lock(&mutex_);
  PassSum& sum = passes_[split];
  ++sum.passes;
  strategy::Accumulate(report, sum.sum);
}

PassSum Channel::passes(Split split) const {
  absl::MutexLock lock(&mutex_);
  const auto found = passes_.find(split);
  return found == passes_.end() ? PassSum() : found->second;
}

int64_t Channel::num_delivered() const {
  absl::MutexLock lock(&mutex_);
  return num_delivered_;
}

bool Channel::has_client() const {
  absl::MutexLock lock(&mutex_);
  return client_ != nullptr;
}

bool Channel::ClientWaits() const {
  std::optional<OpenPass> pass;
  const Demand wanted = demand(pass);
  if (wanted == Demand::kPass || wanted == Demand::kDone) return true;
  absl::MutexLock lock(&mutex_);
  return client_ != nullptr && !is_welcomed_;
}

ClientSeconds Channel::seconds() const {
  absl::MutexLock lock(&mutex_);
  return seconds_;
}

std::vector<ReportedEpoch> Channel::TakeEpochs() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(epochs_, {});
}

double Channel::seconds_without_client() const {
  absl::MutexLock lock(&mutex_);
  return client_ != nullptr ? 0 : clock_.SteadySeconds() - client_gone_at_;
}

int64_t Channel::held_batches() const {
  absl::MutexLock lock(&mutex_);
  return HeldBatches();
}

SlotCounts Channel::slots() const {
  absl::MutexLock lock(&mutex_);
  SlotCounts counts = {.held = std::ssize(held_)};
  for (const std::shared_ptr<SlotPool>& pool : pools_) {
    const int64_t lent = pool->lent();
    counts.filled += lent;
    counts.free += std::max<int64_t>(0, pool->num_slots() - lent);
  }
  // Some may be of pools that are closed.
  counts.filled = std::max<int64_t>(0, counts.filled - counts.held);
  return counts;
}

uint64_t Channel::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, held] : held_) bytes += held.slot->bytes();
  return bytes;
}

}  // namespace hearth::feed
