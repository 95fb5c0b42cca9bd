#ifndef HEARTH_ENGINE_PLAN_PLAN_STORE_H_
#define HEARTH_ENGINE_PLAN_PLAN_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_records.h"

/// Plans on disk: who uses them, how much space they take, and when they are
/// removed. Format of a plan: a folder with the files of its strategy, and
/// PlanRecords.

namespace hearth::plan {

/// Description of a plan on disk.
struct PlanInfo {
  enum class State { kWhole, kUnfinished, kDamaged };

  std::string name;
  State state = State::kUnfinished;
  /// Whether a job holds a lease of the plan.
  bool in_use = false;
  uint64_t size_bytes = 0;
  /// InfinitePast if the plan is not whole.
  absl::Time created = absl::InfinitePast();
  /// When a job took the plan last; InfinitePast if that is not known.
  absl::Time used = absl::InfinitePast();
  PlanProperties properties = {};

  /// Parts of the name, see PlanName.
  std::string strategy() const;
  std::string fingerprint() const;
};

/// Name of a plan: "<strategy>-<fingerprint of the dataset>-<digest>".
/// REQUIRES: no '-' in the first two.
std::string PlanName(absl::string_view strategy, absl::string_view fingerprint,
                     absl::string_view digest);

/// "strategy" in the names of partitions (partition/), which every strategy can
/// use.
inline constexpr char kPartitionPlans[] = "partition";

/// "strategy" in the names of features in stripes (store/feature_stripes.h),
/// one plan in the store of each disk.
inline constexpr char kStripePlans[] = "stripe";

/// "strategy" in the names of copies of features in rows of fewer bytes
/// (store/converted_rows.h).
inline constexpr char kRowPlans[] = "rows";

/// "strategy" in the names of profiles of an epoch (sample/epoch_profile.h).
inline constexpr char kProfilePlans[] = "profile";

/// The disk space for a plan: bytes that may be added to it.
struct PlanSpace {
  /// Bytes left now by the disk and by the store's limit, if all unused plans
  /// were removed.
  uint64_t bytes = 0;
  /// Bytes left by the store's limit once no other plan is in use.
  uint64_t alone_bytes = 0;
  /// Present if plans in use, rather than the disk, limit `bytes`: the bytes of
  /// the whole plan with one byte more than that.
  std::optional<uint64_t> more_needs_bytes;
};

class PlanLease;

/// Plans that strategies have prepared and keep for later jobs, each a
/// sub-folder of one folder. Leases make sure that a plan is made once, is not
/// removed while it is used, and that all plans stay within a limit of space:
/// plans that nobody uses are removed then, the least recently used first.
/// Plans and their sizes are read from the folder once: no other process may
/// change it. Thread-safe.
class PlanStore {
 public:
  struct Options {
    /// Folder of all plans; created when needed.
    std::string folder;
    /// Upper bound of the bytes of all plans on disk; 0 = no limit.
    uint64_t space_bytes = 0;
  };

  /// Bytes of the store's records in a plan's folder (PlanRecords), at most.
  static constexpr uint64_t kRecordBytes = 16 << 10;

  /// `files` and `clock` must outlive the store, which must outlive all leases.
  PlanStore(io::FileSystem& files, const Clock& clock, Options options);
  PlanStore(const PlanStore&) = delete;
  PlanStore& operator=(const PlanStore&) = delete;

  /// Sets the function that is called after a lease has let go of a plan, or
  /// reserved bytes became free, on the thread that caused it, without locks
  /// held. Null = none.
  void SetOnRelease(std::function<void()> on_release)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes a plan exclusively, to look at, make or repair; waits while others
  /// hold it exclusively. Creates its folder if need be. CANCELLED when `stop`
  /// is requested.
  absl::StatusOr<PlanLease> Take(const std::string& name,
                                 const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// All plans, the last used first.
  absl::StatusOr<std::vector<PlanInfo>> List() ABSL_LOCKS_EXCLUDED(mutex_);

  /// NOT_FOUND for an unknown name.
  absl::StatusOr<PlanInfo> Get(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// NOT_FOUND for an unknown name; FAILED_PRECONDITION while a job uses it.
  absl::Status Remove(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Removes all plans for datasets with a fingerprint. FAILED_PRECONDITION if
  /// one is in use; the others are gone then.
  absl::Status RemoveOf(absl::string_view fingerprint)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The disk space for a plan, which may not exist yet; creates no folder.
  absl::StatusOr<PlanSpace> Space(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether a plan of `bytes` in all fits next to the plans in use now. Reads
  /// no file.
  bool HasRoomFor(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Bytes of all plans. A plan that is being made counts with its size when
  /// space was last made for it.
  absl::StatusOr<uint64_t> TotalBytes() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options& options() const { return options_; }

 private:
  friend class PlanLease;

  // Users of a plan.
  struct Holders {
    int leases = 0;
    // Whether one of the leases is exclusive.
    bool exclusive = false;
    // The plan is being removed; there are no leases.
    bool removing = false;
    // Bytes that the plan will take once it is made.
    uint64_t reserved_bytes = 0;
  };
  // An object of a plan that a resting lease keeps open.
  struct Resting {
    std::string name;
    std::shared_ptr<void> open;
  };

  std::string Path(const std::string& name) const;
  // Finds the plans of earlier processes, once.
  absl::Status FindPlans() ABSL_LOCKS_EXCLUDED(looking_mutex_, mutex_);
  // Names of existing plans.
  absl::StatusOr<std::vector<std::string>> Names() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sum of the sizes of the plan's files, read from disk.
  absl::StatusOr<uint64_t> AddUp(const std::string& name) const;
  // AddUp of a plan that may not exist yet.
  absl::StatusOr<uint64_t> BytesSoFar(const std::string& name) const;
  // Size of the plan when it was last measured.
  absl::StatusOr<uint64_t> SizeOf(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Measures the plan for later calls of SizeOf.
  absl::StatusOr<uint64_t> Measure(const std::string& name)
      ABSL_LOCKS_EXCLUDED(looking_mutex_, mutex_);
  // Ends the rest of a lease; false if it does not rest.
  bool EndRest(uint64_t lease) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts one lease less, which may have been exclusive.
  void EndLease(const std::string& name, bool exclusive)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets others share the plan that a lease held exclusively.
  void EndExclusive(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  void CallOnRelease() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<PlanInfo> Describe(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool InUse(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  // Marks the plan as being removed. FAILED_PRECONDITION if somebody holds it.
  absl::Status BeginRemoval(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FinishRemoval(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes and returns the objects that resting leases keep open of the plan.
  std::vector<Resting> TakeResting(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status MakeRoom(const std::string& name, uint64_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes of all plans but one, reserved bytes included.
  struct OtherBytes {
    uint64_t in_use = 0;
    // Bytes of plans that can be removed.
    uint64_t unused = 0;
  };
  absl::StatusOr<OtherBytes> BytesOfOthers(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes that a plan takes or will take; 0 if nobody uses it.
  uint64_t BytesInUse(const std::string& name, const Holders& holders) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const Options options_;
  absl::Mutex mutex_;
  // Signalled when an exclusive lease or a removal ends, and on a stop.
  absl::CondVar changed_;
  std::map<std::string, Holders> holders_ ABSL_GUARDED_BY(mutex_);
  // Resting leases, by number.
  std::map<uint64_t, Resting> resting_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_lease_ ABSL_GUARDED_BY(mutex_) = 1;
  // Existing plans with their bytes; nullopt: not measured.
  std::map<std::string, std::optional<uint64_t>> sizes_ ABSL_GUARDED_BY(mutex_);
  // Held while plans and their sizes are looked up; taken before mutex_.
  absl::Mutex looking_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  // Whether the plans of earlier processes are in sizes_.
  bool listed_ ABSL_GUARDED_BY(looking_mutex_) = false;
  std::function<void()> on_release_ ABSL_GUARDED_BY(mutex_);
};

/// Right of a job to use a plan (PlanStore::Take): exclusive until Share. The
/// plan is in use while its lease lives and does not rest. Move-only,
/// single-owner.
class PlanLease {
 public:
  PlanLease(PlanLease&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        number_(other.number_),
        exclusive_(other.exclusive_),
        name_(std::move(other.name_)) {}
  PlanLease& operator=(PlanLease&& other) noexcept {
    // `taken` ends the lease that this object held before.
    PlanLease taken(std::move(other));
    std::swap(store_, taken.store_);
    std::swap(number_, taken.number_);
    std::swap(exclusive_, taken.exclusive_);
    std::swap(name_, taken.name_);
    return *this;
  }
  ~PlanLease();

  const std::string& name() const { return name_; }
  /// Folder of the plan, which exists.
  std::string folder() const { return store_->Path(name_); }

  // For the job that makes the plan. REQUIRES: exclusive.

  /// The bytes that may be added to the plan.
  absl::StatusOr<PlanSpace> Space() const { return store_->Space(name_); }

  /// Reserves `bytes` more, records included, within the store's limit, until
  /// Share; removes unused plans if need be. RESOURCE_EXHAUSTED, with the
  /// numbers, if plans in use leave too little: with cause
  /// WaitCause::kPlanSpace where the plan would fit without them.
  absl::Status MakeRoom(uint64_t bytes) {
    return store_->MakeRoom(name_, bytes);
  }

  /// Removes everything in the folder.
  absl::Status Clear();

  /// Publishes the plan as whole, with properties for people to read.
  absl::Status Publish(const PlanProperties& properties);

  /// Records of the plan: what was published, and damage that was found.
  PlanRecords records() const;

  // For the job that uses the plan.

  /// Declares the plan whole, so that others may take it, too, and records the
  /// time of use. May be called again to update that time.
  absl::Status Share();

  /// Pauses the use of the plan, which may now be removed. `open`, an object
  /// that reads the plan, is destroyed with it. REQUIRES: shared.
  void Rest(std::shared_ptr<void> open);

  /// Ends the pause. Returns the object that was handed to Rest if the plan
  /// still exists: it is in use again. Null otherwise: the lease is of no more
  /// use.
  std::shared_ptr<void> Wake();

 private:
  friend class PlanStore;

  PlanLease(PlanStore& store, uint64_t number, std::string name)
      : store_(&store), number_(number), name_(std::move(name)) {}

  // Null after a move.
  PlanStore* store_;
  uint64_t number_;
  bool exclusive_ = true;
  std::string name_;
};

/// Plans of several stores together, to list or remove plans of any kind. Each
/// name is in at most one store. Thread-safe.
class PlanStores {
 public:
  /// `main` has the plans that any job can make, each of `others` the plans of
  /// one data disk. All must outlive the object.
  PlanStores(PlanStore& main, absl::Span<PlanStore* const> others);

  /// All plans, the last used first.
  absl::StatusOr<std::vector<PlanInfo>> List() const;

  /// As PlanStore's functions, in the store that has the plan.
  absl::StatusOr<PlanInfo> Get(const std::string& name) const;
  absl::Status Remove(const std::string& name) const;

  /// As PlanStore's function, in all stores: the first error.
  absl::Status RemoveOf(absl::string_view fingerprint) const;

 private:
  // Outcome of the first store that knows the name.
  template <typename Outcome>
  Outcome FirstFound(
      const std::function<Outcome(PlanStore& store)>& look) const;

  std::vector<PlanStore*> stores_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PLAN_STORE_H_
