#include "engine/job/model_memory.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/wait_cause.h"
#include "engine/strategy/memory_estimate.h"

namespace hearth::job {

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
  // The largest first: those go first that are not needed.
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

}  // namespace hearth::job
