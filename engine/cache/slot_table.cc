#include "engine/cache/slot_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace hearth::cache {
namespace {

uint64_t NumBuckets(int64_t num_slots) {
  return std::bit_ceil(std::max<uint64_t>(2 * num_slots, 2));
}

}  // namespace

SlotTable::SlotTable(int64_t num_slots)
    : slots_(num_slots),
      buckets_(NumBuckets(num_slots), -1),
      shift_(64 - std::countr_zero(buckets_.size())) {
  assert(0 <= num_slots && num_slots <= kMaxSlots);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    PushBack(static_cast<int32_t>(slot));
  }
}

SlotTable::Claimed SlotTable::Claim(store::NodeId node) {
  assert(node >= 0);
  if (const int32_t found = buckets_[Locate(node)]; found >= 0) {
    Slot& slot = slots_[found];
    if (slot.refs++ == 0) Unlink(found);
    return {slot.state == State::kValid ? Outcome::kValid : Outcome::kLoading,
            found};
  }
  const int32_t taken = first_standby_;
  if (taken < 0) return {Outcome::kNoSlot, -1};
  Unlink(taken);
  Slot& slot = slots_[taken];
  if (slot.node != kNoNode) Forget(slot.node);
  buckets_[Locate(node)] = taken;
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
  Forget(failed.node);
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

void SlotTable::Prefetch(store::NodeId node) const {
  __builtin_prefetch(&buckets_[Home(node)]);
}

int64_t SlotTable::Find(store::NodeId node) const {
  return buckets_[Locate(node)];
}

std::vector<int64_t> SlotTable::StandbySlots() const {
  std::vector<int64_t> result;
  for (int32_t at = first_standby_; at >= 0; at = slots_[at].next) {
    result.push_back(at);
  }
  return result;
}

uint64_t SlotTable::MemoryBytes(int64_t num_slots) {
  return num_slots * sizeof(Slot) + NumBuckets(num_slots) * sizeof(int32_t);
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

size_t SlotTable::Home(store::NodeId node) const {
  // Multiplicative hashing: the golden ratio spreads runs of ids evenly.
  return (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15) >> shift_;
}

size_t SlotTable::Locate(store::NodeId node) const {
  size_t at = Home(node);
  while (buckets_[at] >= 0 && slots_[buckets_[at]].node != node) {
    at = (at + 1) & (buckets_.size() - 1);
  }
  return at;
}

// Moves what follows the gap back where a search would not find it any more
// (Knuth, The Art of Computer Programming 3, section 6.4, algorithm R).
void SlotTable::Forget(store::NodeId node) {
  const size_t mask = buckets_.size() - 1;
  size_t gap = Locate(node);
  assert(buckets_[gap] >= 0);
  for (size_t at = (gap + 1) & mask; buckets_[at] >= 0; at = (at + 1) & mask) {
    const size_t home = Home(slots_[buckets_[at]].node);
    // Whether the gap lies on the way from its home to where it is.
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    buckets_[gap] = buckets_[at];
    gap = at;
  }
  buckets_[gap] = -1;
}

}  // namespace hearth::cache
