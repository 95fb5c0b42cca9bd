#ifndef HEARTH_ENGINE_PLAN_PLAN_LEASE_H_
#define HEARTH_ENGINE_PLAN_PLAN_LEASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"

namespace hearth::plan {

/// A job's right to a plan (PlanStore::Take): exclusive until Share. While it
/// lives and does not rest, the plan is in use. Move-only, single-owner.
class PlanLease {
 public:
  PlanLease(PlanLease&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        number_(other.number_),
        exclusive_(other.exclusive_),
        name_(std::move(other.name_)) {}
  PlanLease& operator=(PlanLease&& other) noexcept {
    // The plan that this one had goes with `taken`.
    PlanLease taken(std::move(other));
    std::swap(store_, taken.store_);
    std::swap(number_, taken.number_);
    std::swap(exclusive_, taken.exclusive_);
    std::swap(name_, taken.name_);
    return *this;
  }
  ~PlanLease();

  const std::string& name() const { return name_; }
  /// The plan's; it is there.
  std::string folder() const { return store_->Path(name_); }

  // For who makes the plan. REQUIRES: exclusive.

  /// The bytes that may be added to the plan.
  absl::StatusOr<PlanRoom> Room() const { return store_->Room(name_); }

  /// Makes room for `bytes` more, records included, within the store's limit,
  /// and keeps it until Share. RESOURCE_EXHAUSTED, with the numbers, if plans
  /// in use do not leave it: of cause WaitCause::kPlanSpace where it would fit
  /// without them.
  absl::Status MakeRoom(uint64_t bytes) {
    return store_->MakeRoom(name_, bytes);
  }

  /// Removes all that is in the folder.
  absl::Status Clear();

  /// Makes the plan a whole one, with facts for people.
  absl::Status Publish(const PlanProperties& properties);

  /// The records of what was published, and of damage that was read.
  PlanRecords records() const;

  // For who uses it.

  /// The plan is whole: others may take it, too. Notes when it was used, and
  /// may be called again to do so.
  absl::Status Share();

  /// Nobody uses the plan for a while, so that it may be removed; `open`, what
  /// is open of it, goes with it then. REQUIRES: shared.
  void Rest(std::shared_ptr<void> open);

  /// Ends the rest. What was handed to Rest, if the plan is still there: then
  /// it is in use again; null otherwise: then the lease is of no more use.
  std::shared_ptr<void> Wake();

 private:
  friend class PlanStore;

  PlanLease(PlanStore& store, uint64_t number, std::string name)
      : store_(&store), number_(number), name_(std::move(name)) {}

  // Null: moved from.
  PlanStore* store_;
  uint64_t number_;
  bool exclusive_ = true;
  std::string name_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PLAN_LEASE_H_
