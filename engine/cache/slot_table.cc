#include "engine/cache/slot_table.h"

#include <cassert>
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

}  // namespace hearth::cache
