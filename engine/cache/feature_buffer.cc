#include "engine/cache/feature_buffer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace hearth::cache {

SlotTable::SlotTable(int64_t num_slots) : slots_(num_slots), index_(num_slots) {
  assert(0 <= num_slots && num_slots <= kMaxSlots);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    PushBack(static_cast<int32_t>(slot));
  }
}

SlotTable::Claimed SlotTable::Claim(store::NodeId node) {
  assert(node >= 0);
  if (const int32_t found = index_.Find(node, NodeOf()); found >= 0) {
    Slot& slot = slots_[found];
    if (slot.refs++ == 0) Unlink(found);
    return {slot.state == State::kValid ? Outcome::kValid : Outcome::kLoading,
            found};
  }
  const int32_t taken = first_standby_;
  if (taken < 0) return {Outcome::kNoSlot, -1};
  Unlink(taken);
  Slot& slot = slots_[taken];
  if (slot.node != kNoNode) index_.Remove(slot.node, NodeOf());
  index_.Add(node, taken, NodeOf());
  slot.node = node;
  slot.refs = 1;
  slot.state = State::kLoading;
  return {Outcome::kMustLoad, taken};
}

bool SlotTable::Publish(int64_t slot) {
  assert(slots_[slot].state == State::kLoading);
  slots_[slot].state = State::kValid;
  return std::exchange(slots_[slot].awaited, false);
}

bool SlotTable::Fail(int64_t slot, absl::Status error) {
  Slot& failed = slots_[slot];
  assert(failed.state == State::kLoading);
  index_.Remove(failed.node, NodeOf());
  failed.node = kNoNode;
  failed.state = State::kFailed;
  errors_[slot] = std::move(error);
  return std::exchange(failed.awaited, false);
}

bool SlotTable::Await(int64_t slot) {
  assert(slots_[slot].refs > 0);
  if (slots_[slot].state != State::kLoading) return false;
  slots_[slot].awaited = true;
  return true;
}

bool SlotTable::Release(int64_t slot) {
  Slot& released = slots_[slot];
  assert(released.refs > 0);
  if (--released.refs > 0) return false;
  assert(released.state == State::kValid || released.state == State::kFailed);
  if (released.state == State::kValid) {
    PushBack(static_cast<int32_t>(slot));
  } else {
    errors_.erase(slot);
    released.state = State::kEmpty;
    PushFront(static_cast<int32_t>(slot));
  }
  return num_standby_ == 1;
}

const absl::Status& SlotTable::error(int64_t slot) const {
  return errors_.at(slot);
}

void SlotTable::Prefetch(store::NodeId node) const { index_.Prefetch(node); }

int64_t SlotTable::Find(store::NodeId node) const {
  return index_.Find(node, NodeOf());
}

std::vector<int64_t> SlotTable::StandbySlots() const {
  std::vector<int64_t> result;
  for (int32_t at = first_standby_; at >= 0; at = slots_[at].next) {
    result.push_back(at);
  }
  return result;
}

uint64_t SlotTable::MemoryBytes(int64_t num_slots) {
  return num_slots * sizeof(Slot) + NodeIndex::MemoryBytes(num_slots);
}

void SlotTable::PushFront(int32_t slot) {
  slots_[slot].previous = -1;
  slots_[slot].next = first_standby_;
  (first_standby_ < 0 ? last_standby_ : slots_[first_standby_].previous) = slot;
  first_standby_ = slot;
  ++num_standby_;
}

void SlotTable::PushBack(int32_t slot) {
  slots_[slot].previous = last_standby_;
  slots_[slot].next = -1;
  (last_standby_ < 0 ? first_standby_ : slots_[last_standby_].next) = slot;
  last_standby_ = slot;
  ++num_standby_;
}

void SlotTable::Unlink(int32_t slot) {
  const Slot& gone = slots_[slot];
  (gone.previous < 0 ? first_standby_ : slots_[gone.previous].next) = gone.next;
  (gone.next < 0 ? last_standby_ : slots_[gone.next].previous) = gone.previous;
  --num_standby_;
}

ClaimTurns::Turn::~Turn() {
  if (turns_ != nullptr) turns_->Pass();
}

absl::StatusOr<ClaimTurns::Turn> ClaimTurns::Take(int64_t number,
                                                  std::stop_token stop) {
  // Destroyed after the lock, which the callback takes.
  const std::stop_callback on_stop(stop, [this] {
    absl::MutexLock lock(&mutex_);
    passed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  while (taken_ || (order_ == Order::kByNumber && number != next_)) {
    if (stop.stop_requested()) {
      return absl::CancelledError("stopped on request");
    }
    passed_.Wait(&mutex_);
  }
  taken_ = true;
  return Turn(this);
}

void ClaimTurns::Pass() {
  absl::MutexLock lock(&mutex_);
  taken_ = false;
  ++next_;
  passed_.SignalAll();
}

// The protocol of one batch, in the order of Algorithm 1:
//
//  1. Claim takes a reference to each row (the alias list), takes a standby
//     slot for each row that is not there, and notes the rows that others load
//     (the wait list).
//  2. Missing rows are read and, as each arrives, copied into their slots
//     without the lock (no one else touches a slot that is being loaded). Every
//     kPublished rows, the rows that have arrived are published if the lock is
//     free: a batch with reads in flight never waits for it. FinishLoading
//     publishes the rest.
//  3. If no slot stood by, AwaitSlot, then 1 again. Rows claimed before have
//     been loaded by then, so no holder of references waits for this batch.
//  4. The user of the rows first waits for the wait list, by AwaitRows. The
//     thread that claims and loads need not: it can go on with another batch.
//  5. The rows are used, and the references given back.
//
// Each transition of the table wakes those whom it concerns: Publish and Fail
// say whether somebody awaits the row, Release whether the standby list was
// empty, which is when claimers wait.

namespace {

// Transitions while the lock is held once: enough to make its cost small, few
// enough that others get it.
constexpr size_t kChunk = 256;
// Arrived rows after which publishing is tried.
constexpr size_t kPublished = 64;
// Nodes ahead of the claim that are prefetched.
constexpr size_t kNodesAhead = 8;

absl::Status Stopped() { return absl::CancelledError("stopped on request"); }

}  // namespace

FeatureBuffer::FeatureBuffer(SlotArena arena)
    : arena_(std::move(arena)), table_(arena_.num_slots()) {}

int64_t FeatureBuffer::num_standby() const {
  absl::MutexLock lock(&mutex_);
  return table_.num_standby();
}

FeatureBuffer::Pins::Pins(Pins&& other) noexcept { *this = std::move(other); }

FeatureBuffer::Pins& FeatureBuffer::Pins::operator=(Pins&& other) noexcept {
  std::swap(buffer_, other.buffer_);
  std::swap(slots_, other.slots_);
  std::swap(missing_, other.missing_);
  std::swap(arrived_, other.arrived_);
  std::swap(awaited_, other.awaited_);
  std::swap(num_missed_, other.num_missed_);
  return *this;
}

FeatureBuffer::Pins::~Pins() { Release(); }

bool FeatureBuffer::Pins::Claim(absl::Span<const store::NodeId> nodes) {
  assert(missing_.empty() && slots_.size() <= nodes.size());
  slots_.reserve(nodes.size());
  while (slots_.size() < nodes.size()) {
    const size_t end = std::min(slots_.size() + kChunk, nodes.size());
    absl::MutexLock lock(&buffer_->mutex_);
    SlotTable& table = buffer_->table_;
    for (size_t i = slots_.size(); i < end; ++i) {
      table.Prefetch(nodes[std::min(i + kNodesAhead, nodes.size() - 1)]);
      const SlotTable::Claimed claimed = table.Claim(nodes[i]);
      if (claimed.outcome == SlotTable::Outcome::kNoSlot) return false;
      slots_.push_back(claimed.slot);
      if (claimed.outcome == SlotTable::Outcome::kMustLoad) {
        missing_.push_back(static_cast<int64_t>(i));
        ++num_missed_;
      } else if (claimed.outcome == SlotTable::Outcome::kLoading) {
        awaited_.push_back(claimed.slot);
      }
    }
  }
  return true;
}

void FeatureBuffer::Pins::Load(size_t index, const std::byte* row) {
  const int64_t slot = slots_[missing_[index]];
  std::memcpy(buffer_->arena_.row(slot), row, buffer_->arena_.row_bytes());
  arrived_.push_back(slot);
  if (arrived_.size() % kPublished != 0) return;
  if (!buffer_->mutex_.TryLock()) return;
  PublishArrived();
  buffer_->mutex_.Unlock();
}

void FeatureBuffer::Pins::PublishArrived() {
  bool awaited = false;
  for (const int64_t slot : arrived_) {
    awaited = buffer_->table_.Publish(slot) || awaited;
  }
  arrived_.clear();
  if (awaited) buffer_->loaded_.SignalAll();
}

void FeatureBuffer::Pins::FinishLoading() {
  if (!arrived_.empty()) {
    absl::MutexLock lock(&buffer_->mutex_);
    PublishArrived();
  }
  // Pins live on for long; only loading needs this memory.
  arrived_ = {};
  missing_ = {};
}

void FeatureBuffer::Pins::FailLoading(const absl::Status& error) {
  if (missing_.empty()) return;
  absl::MutexLock lock(&buffer_->mutex_);
  PublishArrived();
  SlotTable& table = buffer_->table_;
  bool awaited = false;
  for (const int64_t position : missing_) {
    const int64_t slot = slots_[position];
    if (table.state(slot) != SlotTable::State::kLoading) continue;
    awaited = table.Fail(slot, error) || awaited;
  }
  missing_.clear();
  if (awaited) buffer_->loaded_.SignalAll();
}

absl::Status FeatureBuffer::Pins::AwaitSlot(std::stop_token stop) {
  // Destroyed after the lock, which the callback takes.
  const std::stop_callback on_stop(stop, [this] {
    absl::MutexLock lock(&buffer_->mutex_);
    buffer_->released_.SignalAll();
  });
  absl::MutexLock lock(&buffer_->mutex_);
  while (buffer_->table_.num_standby() == 0) {
    if (stop.stop_requested()) return Stopped();
    buffer_->released_.Wait(&buffer_->mutex_);
  }
  return absl::OkStatus();
}

absl::Status FeatureBuffer::Pins::AwaitRows(std::stop_token stop) {
  if (awaited_.empty()) return absl::OkStatus();
  const std::stop_callback on_stop(stop, [this] {
    absl::MutexLock lock(&buffer_->mutex_);
    buffer_->loaded_.SignalAll();
  });
  absl::MutexLock lock(&buffer_->mutex_);
  SlotTable& table = buffer_->table_;
  for (const int64_t slot : awaited_) {
    while (table.Await(slot)) {
      if (stop.stop_requested()) return Stopped();
      buffer_->loaded_.Wait(&buffer_->mutex_);
    }
    if (table.state(slot) == SlotTable::State::kFailed) {
      return table.error(slot);
    }
  }
  awaited_.clear();
  return absl::OkStatus();
}

void FeatureBuffer::Pins::Release() {
  FailLoading(absl::CancelledError("its loading was given up"));
  for (size_t begin = 0; begin < slots_.size(); begin += kChunk) {
    absl::MutexLock lock(&buffer_->mutex_);
    bool standby = false;
    for (const int64_t slot : slots().subspan(begin, kChunk)) {
      standby = buffer_->table_.Release(slot) || standby;
    }
    if (standby) buffer_->released_.SignalAll();
  }
  slots_.clear();
  awaited_.clear();
}

}  // namespace hearth::cache
