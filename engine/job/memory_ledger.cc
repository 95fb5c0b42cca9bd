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

void MemoryLedger::AddGpu(int number, uint64_t limit_bytes) {
  absl::MutexLock lock(&mutex_);
  gpus_[number] = {.limit_bytes = limit_bytes};
}

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
    const absl::Status room = CheckRoom(estimate, reservation.estimate_);
    if (room.ok()) break;
    if (WaitCauseOf(room) == WaitCause::kNone || !reclaim_) return room;
    const std::function<bool()> reclaim = reclaim_;
    mutex_.Unlock();
    const bool reclaimed = reclaim();
    mutex_.Lock();
    if (!reclaimed) return room;
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

std::map<int, MemoryLedger::GpuUse> MemoryLedger::gpus() const {
  absl::MutexLock lock(&mutex_);
  return gpus_;
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

absl::Status MemoryLedger::CheckRoom(const MemoryEstimate& estimate,
                                     const MemoryEstimate& now) const {
  const MemoryRoom room = RoomBeside(
      reserved_bytes_ + warm_bytes_ - now.TotalBytes(), estimate.TotalBytes());
  if (room == MemoryRoom::kFree) return CheckGpuRoom(estimate, now);
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
      message, "; smaller budgets, batches, fan-outs or models need less"));
}

absl::Status MemoryLedger::CheckGpuRoom(const MemoryEstimate& estimate,
                                        const MemoryEstimate& now) const {
  for (const auto& [number, use] : gpus_) {
    const strategy::MemoryPlace place = {.gpu = number};
    const uint64_t bytes = estimate.TotalBytes(place);
    const uint64_t taken = use.taken_bytes - now.TotalBytes(place);
    if (bytes == 0 || taken + bytes <= use.limit_bytes) continue;
    const std::string message = absl::StrCat(
        "the job may need ", FormatByteSize(bytes),
        " of the memory of cuda:", number, " (",
        strategy::FormatShares(estimate, place), "), but of the ",
        FormatByteSize(use.limit_bytes), " that jobs may take there ",
        FormatByteSize(taken), " are taken");
    if (bytes <= use.limit_bytes) return WaitForGpuMemoryError(message);
    return absl::ResourceExhaustedError(absl::StrCat(
        message,
        "; a smaller model or batches, or a smaller gpu_cache, need "
        "less"));
  }
  return absl::OkStatus();
}

uint64_t& MemoryLedger::SumOf(const MemoryShare& share) {
  return share.place.gpu.has_value() ? gpus_[*share.place.gpu].taken_bytes
                                     : by_owner_[share.owner];
}

void MemoryLedger::Add(const Reservation& reservation) {
  uint64_t& sum = reservation.resting_ ? warm_bytes_ : reserved_bytes_;
  sum += reservation.estimate_.TotalBytes();
  for (const MemoryShare& share : reservation.estimate_.shares) {
    SumOf(share) += share.bytes;
  }
}

void MemoryLedger::Subtract(const Reservation& reservation) {
  uint64_t& sum = reservation.resting_ ? warm_bytes_ : reserved_bytes_;
  sum -= reservation.estimate_.TotalBytes();
  for (const MemoryShare& share : reservation.estimate_.shares) {
    SumOf(share) -= share.bytes;
  }
}

}  // namespace hearth::job
