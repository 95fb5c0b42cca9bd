#include "engine/job/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/process_memory.h"
#include "engine/base/wait_cause.h"

namespace hearth::job {

using strategy::MemoryEstimate;
using strategy::MemoryShare;

MachineMemory MachineMemory::Real() {
  return {.available = AvailableMemoryBytes,
          .used = [] { return ReadProcessMemory().total_bytes(); },
          .capacity = MemoryCapacityBytes()};
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
  std::function<void()> on_release;
  {
    absl::MutexLock lock(&ledger_->mutex_);
    ledger_->Subtract(*this);
    if (!resting_) on_release = ledger_->on_release_;
  }
  if (on_release) on_release();
}

void MemoryLedger::Reservation::Rest() {
  if (ledger_ == nullptr || resting_) return;
  std::function<void()> on_release;
  {
    absl::MutexLock lock(&ledger_->mutex_);
    ledger_->Subtract(*this);
    std::erase_if(estimate_.shares,
                  [](const MemoryShare& share) { return !share.kept; });
    resting_ = true;
    ledger_->Add(*this);
    on_release = ledger_->on_release_;
  }
  if (on_release) on_release();
}

MemoryLedger::MemoryLedger(uint64_t limit_bytes, MachineMemory machine)
    : limit_bytes_(limit_bytes),
      machine_(std::move(machine)),
      base_bytes_(machine_.used()) {}

void MemoryLedger::SetReclaim(std::function<bool()> reclaim) {
  absl::MutexLock lock(&mutex_);
  reclaim_ = std::move(reclaim);
}

void MemoryLedger::SetOnRelease(std::function<void()> on_release) {
  absl::MutexLock lock(&mutex_);
  on_release_ = std::move(on_release);
}

absl::Status MemoryLedger::Reserve(const MemoryEstimate& estimate,
                                   Reservation& reservation) {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    const MemoryRoom room = RoomBeside(
        reserved_bytes_ + warm_bytes_ - reservation.estimate_.TotalBytes(),
        estimate.TotalBytes());
    if (room == MemoryRoom::kFree) break;
    if (room == MemoryRoom::kNever || !reclaim_) return Refuse(estimate, room);
    const std::function<bool()> reclaim = reclaim_;
    mutex_.Unlock();
    const bool reclaimed = reclaim();
    mutex_.Lock();
    if (!reclaimed) return Refuse(estimate, room);
  }
  if (reservation.ledger_ != nullptr) Subtract(reservation);
  reservation.ledger_ = this;
  reservation.estimate_ = estimate;
  reservation.resting_ = false;
  Add(reservation);
  return absl::OkStatus();
}

MemoryRoom MemoryLedger::RoomFor(uint64_t bytes) const {
  absl::MutexLock lock(&mutex_);
  return RoomBeside(reserved_bytes_, bytes);
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

MemoryRoom MemoryLedger::RoomBeside(uint64_t taken, uint64_t bytes) const {
  if (bytes > limit_bytes_) return MemoryRoom::kNever;
  uint64_t limit = limit_bytes_;
  if (const uint64_t available = machine_.available(); available > 0) {
    // Part of what is reserved is in use, and no longer available.
    const uint64_t used = machine_.used();
    limit = std::min(limit,
                     available + (used > base_bytes_ ? used - base_bytes_ : 0));
  }
  if (bytes > limit) {
    return machine_.capacity > 0 && bytes > machine_.capacity
               ? MemoryRoom::kNever
               : MemoryRoom::kHeldByOthers;
  }
  return taken + bytes <= limit ? MemoryRoom::kFree : MemoryRoom::kHeldByJobs;
}

absl::Status MemoryLedger::Refuse(const MemoryEstimate& estimate,
                                  MemoryRoom room) const {
  const std::string message = absl::StrCat(
      "the job may need ", FormatByteSize(estimate.TotalBytes()),
      " of memory (", strategy::FormatShares(estimate), "), but of the ",
      FormatByteSize(limit_bytes_),
      " that jobs may take (the daemon's memory limit) ",
      FormatByteSize(reserved_bytes_), " are reserved, and the machine has ",
      FormatByteSize(machine_.available()), " available");
  if (room != MemoryRoom::kNever) {
    return WaitForMemoryError(message, estimate.TotalBytes());
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      message, "; smaller budgets, batches or fan-outs need less"));
}

void MemoryLedger::Add(const Reservation& reservation) {
  uint64_t& sum = reservation.resting_ ? warm_bytes_ : reserved_bytes_;
  sum += reservation.estimate_.TotalBytes();
  for (const MemoryShare& share : reservation.estimate_.shares) {
    by_owner_[share.owner] += share.bytes;
  }
}

void MemoryLedger::Subtract(const Reservation& reservation) {
  uint64_t& sum = reservation.resting_ ? warm_bytes_ : reserved_bytes_;
  sum -= reservation.estimate_.TotalBytes();
  for (const MemoryShare& share : reservation.estimate_.shares) {
    by_owner_[share.owner] -= share.bytes;
  }
}

}  // namespace hearth::job
