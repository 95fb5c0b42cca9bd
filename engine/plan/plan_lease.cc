#include "engine/plan/plan_lease.h"

#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"

namespace hearth::plan {

PlanLease::~PlanLease() {
  if (store_ == nullptr || store_->EndRest(number_)) return;
  store_->EndLease(name_, exclusive_);
}

absl::Status PlanLease::Clear() {
  io::FileSystem& files = store_->files_;
  std::vector<PlanStore::Resting> rested;
  {
    absl::MutexLock lock(&store_->mutex_);
    rested = store_->TakeResting(name_);
  }
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder()));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder()));
  return files.SyncDirectory(store_->options_.folder);
}

PlanRecords PlanLease::records() const {
  return PlanRecords(store_->files_, folder());
}

absl::Status PlanLease::Publish(const PlanProperties& properties) {
  return records().WriteAbout(
      {.created = store_->clock_.Now(), .properties = properties});
}

absl::Status PlanLease::Share() {
  HEARTH_RETURN_IF_ERROR(records().WriteUse(store_->clock_.Now()));
  if (!exclusive_) return absl::OkStatus();
  exclusive_ = false;
  store_->EndExclusive(name_);
  return absl::OkStatus();
}

void PlanLease::Rest(std::shared_ptr<void> open) {
  {
    absl::MutexLock lock(&store_->mutex_);
    store_->resting_[number_] = {.name = name_, .open = std::move(open)};
  }
  store_->EndLease(name_, /*exclusive=*/false);
}

std::shared_ptr<void> PlanLease::Wake() {
  absl::MutexLock lock(&store_->mutex_);
  const auto resting = store_->resting_.find(number_);
  if (resting == store_->resting_.end() || resting->second.open == nullptr ||
      store_->holders_[name_].removing) {
    return nullptr;
  }
  std::shared_ptr<void> open = std::move(resting->second.open);
  store_->resting_.erase(resting);
  ++store_->holders_[name_].leases;
  return open;
}

}  // namespace hearth::plan
