#include "engine/job/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/process_memory.h"

namespace hearth::job {

using strategy::MemoryEstimate;
using strategy::MemoryShare;

MachineMemory MachineMemory::Real() {
  return {.available = AvailableMemoryBytes,
          .used = [] { return ReadProcessMemory().total_bytes(); }};
}

uint64_t DefaultMemoryLimit() {
  const uint64_t capacity = MemoryCapacityBytes() / 10 * 9;
  const uint64_t used = ReadProcessMemory().total_bytes();
  return capacity > used ? capacity - used : 0;
}

MemoryLedger::Reservation& MemoryLedger::Reservation::operator=(
    Reservation&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(estimate_, other.estimate_);
  std::swap(resting_, other.resting_);
  return *this;
}

MemoryLedger::Reservation::~Reservation() {
  if (ledger_ == nullptr) return;
  absl::MutexLock lock(&ledger_->mutex_);
  ledger_->Subtract(*this);
  ledger_->changed_.SignalAll();
}

void MemoryLedger::Reservation::Rest() {
  if (ledger_ == nullptr || resting_) return;
  absl::MutexLock lock(&ledger_->mutex_);
  ledger_->Subtract(*this);
  std::erase_if(estimate_.shares,
                [](const MemoryShare& share) { return !share.kept; });
  resting_ = true;
  ledger_->Add(*this);
  ledger_->changed_.SignalAll();
}

MemoryLedger::MemoryLedger(uint64_t limit_bytes, MachineMemory machine)
    : limit_bytes_(limit_bytes),
      machine_(std::move(machine)),
      base_bytes_(machine_.used()) {}

void MemoryLedger::SetReclaim(std::function<bool()> reclaim) {
  absl::MutexLock lock(&mutex_);
  reclaim_ = std::move(reclaim);
}

absl::Status MemoryLedger::Reserve(
    const MemoryEstimate& estimate, Reservation& reservation,
    std::stop_token stop, absl::FunctionRef<void(const std::string&)> on_wait) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  const uint64_t needed = estimate.TotalBytes();
  const bool runs = reservation.ledger_ != nullptr && !reservation.resting_;
  bool told = false;
  absl::MutexLock lock(&mutex_);
  for (;;) {
    const Room room = RoomFor(needed, reservation.estimate_.TotalBytes());
    if (room == Room::kFits) break;
    if (room == Room::kNever) return Refuse(estimate);
    if (reclaim_) {
      const std::function<bool()> reclaim = reclaim_;
      mutex_.Unlock();
      const bool reclaimed = reclaim();
      mutex_.Lock();
      if (reclaimed) continue;
    }
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    // Others must be at work for waiting to make sense.
    if (running_ - (runs ? 1 : 0) - waiting_ <= 0) return Refuse(estimate);
    if (!std::exchange(told, true)) {
      mutex_.Unlock();
      on_wait(absl::StrCat("waiting for memory: ", FormatByteSize(needed),
                           " are needed"));
      mutex_.Lock();
      continue;
    }
    waiting_ += runs ? 1 : 0;
    changed_.Wait(&mutex_);
    waiting_ -= runs ? 1 : 0;
  }
  if (reservation.ledger_ != nullptr) Subtract(reservation);
  reservation.ledger_ = this;
  reservation.estimate_ = estimate;
  reservation.resting_ = false;
  Add(reservation);
  return absl::OkStatus();
}

uint64_t MemoryLedger::reserved_bytes() const {
  absl::MutexLock lock(&mutex_);
  return reserved_bytes_;
}

uint64_t MemoryLedger::warm_bytes() const {
  absl::MutexLock lock(&mutex_);
  return warm_bytes_;
}

std::map<std::string, uint64_t> MemoryLedger::BytesByOwner() const {
  absl::MutexLock lock(&mutex_);
  return by_owner_;
}

// For `bytes` in the place of `held`.
MemoryLedger::Room MemoryLedger::RoomFor(uint64_t bytes, uint64_t held) const {
  uint64_t limit = limit_bytes_;
  if (const uint64_t available = machine_.available(); available > 0) {
    // Part of what is reserved is in use, and no longer available.
    const uint64_t used = machine_.used();
    limit = std::min(limit,
                     available + (used > base_bytes_ ? used - base_bytes_ : 0));
  }
  if (bytes > limit) return Room::kNever;
  return reserved_bytes_ + warm_bytes_ - held + bytes <= limit ? Room::kFits
                                                               : Room::kNotNow;
}

absl::Status MemoryLedger::Refuse(const MemoryEstimate& estimate) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the job may need ", FormatByteSize(estimate.TotalBytes()),
      " of memory (", strategy::FormatShares(estimate), "), but of the ",
      FormatByteSize(limit_bytes_),
      " that jobs may take (the daemon's memory limit) ",
      FormatByteSize(reserved_bytes_), " are reserved, and the machine has ",
      FormatByteSize(machine_.available()),
      " available; smaller budgets, batches or fan-outs need less"));
}

void MemoryLedger::Add(const Reservation& reservation) {
  uint64_t& sum = reservation.resting_ ? warm_bytes_ : reserved_bytes_;
  sum += reservation.estimate_.TotalBytes();
  if (!reservation.resting_) ++running_;
  for (const MemoryShare& share : reservation.estimate_.shares) {
    by_owner_[share.owner] += share.bytes;
  }
}

void MemoryLedger::Subtract(const Reservation& reservation) {
  uint64_t& sum = reservation.resting_ ? warm_bytes_ : reserved_bytes_;
  sum -= reservation.estimate_.TotalBytes();
  if (!reservation.resting_) --running_;
  for (const MemoryShare& share : reservation.estimate_.shares) {
    by_owner_[share.owner] -= share.bytes;
  }
}

}  // namespace hearth::job
