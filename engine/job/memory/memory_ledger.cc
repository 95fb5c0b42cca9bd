#include "engine/job/memory/memory_ledger.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/strategy/memory_budget.h"

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
    const absl::Status room = CheckAvailable(estimate, reservation.estimate_);
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

MemoryAvailability MemoryLedger::Availability(uint64_t bytes) const {
  absl::MutexLock lock(&mutex_);
  return AvailabilityBeside(reserved_bytes_, bytes);
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

MemoryAvailability MemoryLedger::AvailabilityBeside(uint64_t taken,
                                                    uint64_t bytes) const {
  if (bytes > limit_bytes_) return MemoryAvailability::kNever;
  uint64_t limit = limit_bytes_;
  if (const uint64_t available = machine_.available(); available > 0) {
    // Part of the reserved memory is in use, and so not available any more.
    const uint64_t used = machine_.used();
    limit = std::min(limit,
                     available + (used > base_bytes_ ? used - base_bytes_ : 0));
  }
  if (bytes > limit) {
    return machine_.capacity > 0 && bytes > machine_.capacity
               ? MemoryAvailability::kNever
               : MemoryAvailability::kHeldByOthers;
  }
  return taken + bytes <= limit ? MemoryAvailability::kFree
                                : MemoryAvailability::kHeldByJobs;
}

absl::Status MemoryLedger::CheckAvailable(const MemoryEstimate& estimate,
                                          const MemoryEstimate& now) const {
  const MemoryAvailability room = AvailabilityBeside(
      reserved_bytes_ + warm_bytes_ - now.TotalBytes(), estimate.TotalBytes());
  if (room == MemoryAvailability::kFree)
    return CheckGpuAvailable(estimate, now);
  const std::string message = absl::StrCat(
      "the job may need ", FormatByteSize(estimate.TotalBytes()),
      " of memory (", strategy::FormatShares(estimate), "), but of the ",
      FormatByteSize(limit_bytes_),
      " that jobs may take (the daemon's memory limit) ",
      FormatByteSize(reserved_bytes_), " are reserved, and the machine has ",
      FormatByteSize(machine_.available()), " available");
  if (room != MemoryAvailability::kNever) {
    return WaitForMemoryError(message, estimate.TotalBytes());
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      message, "; smaller budgets, batches, fan-outs or models need less"));
}

absl::Status MemoryLedger::CheckGpuAvailable(const MemoryEstimate& estimate,
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

std::string DescribeModel(uint64_t parameter_bytes, uint64_t kept_bytes) {
  return absl::StrCat(
      "the model's parameters take ", FormatByteSize(parameter_bytes),
      ", with gradients, optimizer state and copies for checkpoints ",
      FormatByteSize(kept_bytes),
      ": a smaller hidden width (--hidden), fewer layers (--fanouts) or fewer "
      "trainers need less");
}

absl::Status ModelMemory::Add(const void* owner, const Model& model) {
  if (first_bytes_ == 0) first_bytes_ = model.bytes;
  models_[owner] = model;
  const uint64_t needed = NeededBytes();
  if (needed <= reserved_bytes_) return absl::OkStatus();
  strategy::MemoryEstimate estimate;
  estimate.Add("model", needed - reserved_bytes_);
  MemoryLedger::Reservation reservation;
  if (absl::Status status = ledger_.Reserve(estimate, reservation);
      !status.ok()) {
    models_.erase(owner);
    if (WaitCauseOf(status) != WaitCause::kNone) return status;
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), "; ",
                     DescribeModel(model.parameter_bytes, model.kept_bytes)));
  }
  // Largest first, to give back the largest reservations that are not needed.
  const auto bytes = [](const MemoryLedger::Reservation& one) {
    return one.estimate().TotalBytes();
  };
  reservations_.insert(
      std::upper_bound(
          reservations_.begin(), reservations_.end(), reservation,
          [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); }),
      std::move(reservation));
  reserved_bytes_ = needed;
  peak_bytes_ = std::max(peak_bytes_, reserved_bytes_);
  return absl::OkStatus();
}

void ModelMemory::Remove(const void* owner) {
  models_.erase(owner);
  const uint64_t needed = NeededBytes();
  std::erase_if(reservations_, [&](const MemoryLedger::Reservation& one) {
    const uint64_t bytes = one.estimate().TotalBytes();
    if (reserved_bytes_ - bytes < needed) return false;
    reserved_bytes_ -= bytes;
    return true;
  });
}

uint64_t ModelMemory::NeededBytes() const {
  uint64_t bytes = 0;
  std::vector<uint64_t> steps;
  for (const auto& [owner, model] : models_) {
    bytes += model.kept_bytes;
    steps.push_back(model.bytes - std::min(model.bytes, model.kept_bytes));
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  const size_t at_a_time =
      std::min(steps.size(), static_cast<size_t>(max_steps_));
  for (size_t i = 0; i < at_a_time; ++i) bytes += steps[i];
  return bytes - std::min(bytes, first_bytes_);
}

namespace {

class MemorySamplerImpl final : public MemorySampler {
 public:
  MemorySamplerImpl()
      : thread_([this](std::stop_token stop) { Sample(std::move(stop)); }) {}

  uint64_t PeakBytes() override {
    const uint64_t now = ReadProcessMemory().total_bytes();
    std::lock_guard lock(mutex_);
    return peak_ = std::max(peak_, now);
  }

 private:
  static constexpr std::chrono::milliseconds kPeriod{50};

  void Sample(std::stop_token stop) {
    while (!stop.stop_requested()) {
      PeakBytes();
      std::unique_lock lock(mutex_);
      tick_.wait_for(lock, stop, kPeriod, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable_any tick_;
  uint64_t peak_ = 0;    // Guarded by mutex_.
  std::jthread thread_;  // Last: stops before the rest goes.
};

}  // namespace

std::unique_ptr<MemorySampler> NewMemorySampler() {
  return std::make_unique<MemorySamplerImpl>();
}

}  // namespace hearth::job
