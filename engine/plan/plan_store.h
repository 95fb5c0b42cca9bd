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

namespace hearth::plan {

/// The facts that are known of a plan.
struct PlanInfo {
  enum class State { kWhole, kUnfinished, kDamaged };

  std::string name;
  State state = State::kUnfinished;
  /// Whether a job uses or makes it.
  bool in_use = false;
  uint64_t size_bytes = 0;
  /// InfinitePast if it is not whole.
  absl::Time created = absl::InfinitePast();
  /// When a job took it last; InfinitePast if that is unknown.
  absl::Time used = absl::InfinitePast();
  PlanProperties properties = {};

  /// Both are parts of the name.
  std::string strategy() const;
  std::string fingerprint() const;
};

/// "<strategy>-<fingerprint of the dataset>-<digest>": what PlanInfo tells of a
/// plan follows from its name. REQUIRES: no '-' in the first two.
std::string PlanName(absl::string_view strategy, absl::string_view fingerprint,
                     absl::string_view digest);

/// The "strategy" in the names of plans that are partitions (partition/), which
/// every strategy can use.
inline constexpr char kPartitionPlans[] = "partition";

/// Likewise of features in stripes (store/feature_stripes.h), of each disk the
/// plan in its own store.
inline constexpr char kStripePlans[] = "stripe";

/// Likewise of profiles of an epoch (sample/epoch_profile.h).
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

/// The plans that strategies have prepared and keep for later jobs, each a
/// folder in one folder. Knows who uses which, so that a plan is made once, is
/// not removed while it is needed, and all of them take no more space than they
/// may: those that nobody uses go then, the least recently used first. It knows
/// which plans there are, and their sizes, from one look at the folder: nobody
/// else changes it meanwhile. Thread-safe.
class PlanStore {
 public:
  struct Options {
    /// The folder of all plans; made when needed.
    std::string folder;
    /// Bytes that all plans may take on disk; 0 = no limit.
    uint64_t space_bytes = 0;
  };

  /// Bytes of the records of the store, which a plan has beside what its
  /// strategy writes.
  static constexpr uint64_t kRecordBytes = 16 << 10;

  /// `files` and `clock` outlive it, it outlives all leases.
  PlanStore(io::FileSystem& files, const Clock& clock, Options options);
  PlanStore(const PlanStore&) = delete;
  PlanStore& operator=(const PlanStore&) = delete;

  /// Sets the function that is called after a job has let go of a plan, or
  /// reserved bytes became free, on the thread that did so, without locks held.
  /// Null = none.
  void SetOnRelease(std::function<void()> on_release)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes a plan, there or not, to look at, make or repair, once nobody else
  /// does that. Makes its folder. CANCELLED when `stop` is requested.
  absl::StatusOr<PlanLease> Take(const std::string& name,
                                 const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The last used first.
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

  /// Whether a plan of `bytes` in all has room beside those in use now. Looks
  /// at no file.
  bool HasRoomFor(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Bytes of all plans. One that is being made counts with what it had when
  /// room was last made for it.
  absl::StatusOr<uint64_t> TotalBytes() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options& options() const { return options_; }

 private:
  friend class PlanLease;

  // Who has a plan.
  struct Holders {
    int leases = 0;
    // One of the leases is exclusive.
    bool exclusive = false;
    // There are none: the plan goes.
    bool removing = false;
    // Bytes that it will take once it is made.
    uint64_t reserved_bytes = 0;
  };
  // An object that a resting lease keeps open.
  struct Resting {
    std::string name;
    std::shared_ptr<void> open;
  };

  std::string Path(const std::string& name) const;
  // Looks for the plans of earlier daemons, once.
  absl::Status FindPlans() ABSL_LOCKS_EXCLUDED(looking_mutex_, mutex_);
  // Plans that are there.
  absl::StatusOr<std::vector<std::string>> Names() ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes of the plan's files, which are looked at.
  absl::StatusOr<uint64_t> AddUp(const std::string& name) const;
  // The same of a plan that may not be there yet.
  absl::StatusOr<uint64_t> BytesSoFar(const std::string& name) const;
  // Its bytes, as they were when they were looked at last.
  absl::StatusOr<uint64_t> SizeOf(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Its bytes, which are looked at for SizeOf to know them.
  absl::StatusOr<uint64_t> Measure(const std::string& name)
      ABSL_LOCKS_EXCLUDED(looking_mutex_, mutex_);
  // Ends the rest of a lease; false if it does not rest.
  bool EndRest(uint64_t lease) ABSL_LOCKS_EXCLUDED(mutex_);
  // There is one lease less, which may have been the exclusive one.
  void EndLease(const std::string& name, bool exclusive)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Others may share the plan with the exclusive lease from now on.
  void EndExclusive(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  void CallOnRelease() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<PlanInfo> Describe(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool InUse(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  // FAILED_PRECONDITION if somebody has it; otherwise it is the caller's.
  absl::Status BeginRemoval(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FinishRemoval(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The objects that resting leases keep open of the plan.
  std::vector<Resting> TakeResting(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status MakeRoom(const std::string& name, uint64_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes that plans other than one take or have reserved.
  struct OtherBytes {
    uint64_t in_use = 0;
    // Bytes of plans that could be removed.
    uint64_t unused = 0;
  };
  absl::StatusOr<OtherBytes> BytesOfOthers(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The bytes that a plan takes or will; 0 if nobody uses it.
  uint64_t BytesInUse(const std::string& name, const Holders& holders) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const Options options_;
  absl::Mutex mutex_;
  // Signalled when an exclusive lease or a removal ends, and on a stop.
  absl::CondVar changed_;
  std::map<std::string, Holders> holders_ ABSL_GUARDED_BY(mutex_);
  // By the lease's number.
  std::map<uint64_t, Resting> resting_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_lease_ ABSL_GUARDED_BY(mutex_) = 1;
  // Plans that are there, with their bytes; nullopt: those are not known.
  std::map<std::string, std::optional<uint64_t>> sizes_ ABSL_GUARDED_BY(mutex_);
  // Held while plans and their sizes are looked for; taken first.
  absl::Mutex looking_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  // The plans of earlier daemons are in sizes_.
  bool listed_ ABSL_GUARDED_BY(looking_mutex_) = false;
  std::function<void()> on_release_ ABSL_GUARDED_BY(mutex_);
};

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
  absl::StatusOr<PlanSpace> Space() const { return store_->Space(name_); }

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

/// The plans of several stores together, for those who show or remove plans of
/// any kind. A name is in one of them at most. Thread-safe.
class PlanStores {
 public:
  /// `main` has the plans that any job can make, `others` are on disks of their
  /// own. All outlive it.
  PlanStores(PlanStore& main, absl::Span<PlanStore* const> others);

  /// The last used first.
  absl::StatusOr<std::vector<PlanInfo>> List() const;

  /// As those of PlanStore, in the store that has the plan.
  absl::StatusOr<PlanInfo> Get(const std::string& name) const;
  absl::Status Remove(const std::string& name) const;

  /// As that of PlanStore, in all of them: the first error.
  absl::Status RemoveOf(absl::string_view fingerprint) const;

 private:
  // The first outcome of a store that knows the name.
  template <typename Outcome>
  Outcome FirstFound(
      const std::function<Outcome(PlanStore& store)>& look) const;

  std::vector<PlanStore*> stores_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PLAN_STORE_H_
