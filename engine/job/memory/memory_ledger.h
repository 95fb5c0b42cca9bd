#ifndef HEARTH_ENGINE_JOB_MEMORY_MEMORY_LEDGER_H_
#define HEARTH_ENGINE_JOB_MEMORY_MEMORY_LEDGER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/strategy/memory_budget.h"

/// The memory that jobs hold: reservations of the host's and of GPUs' memory
/// (MemoryLedger), the part of models that train on the same batches
/// (ModelMemory), and samples of what the process really holds (MemorySampler).
/// Reservations come before allocations: a job that does not fit fails with
/// numbers instead of being killed.

namespace hearth::job {

/// How to find the machine's memory, in bytes; replaced in tests.
struct MachineMemory {
  /// Memory that new allocations may take, in bytes; 0 = unknown.
  std::function<uint64_t()> available;
  /// Memory that this process holds, in bytes.
  std::function<uint64_t()> used;
  /// All memory, free or in use, in bytes; 0 = unknown.
  uint64_t capacity = 0;

  static MachineMemory Real();
};

/// Default of the memory that all jobs together may take: nine tenths of the
/// memory of the machine or container, less the memory that this process holds.
uint64_t DefaultMemoryLimit();

/// Whether memory for a reservation is available.
enum class MemoryAvailability {
  kFree,
  /// Available once running jobs give theirs back.
  kHeldByJobs,
  /// Available once other processes of the machine give theirs back.
  kHeldByOthers,
  kNever,
};

/// The account of the memory of the host and of GPUs: each job reserves the
/// upper bound of its memory before it takes any, so that no job, and no other
/// process, is killed for lack of memory. Nobody waits in the ledger: a job
/// that is refused tries again when memory was given back. Functions without a
/// GPU in their name are about the host. Thread-safe.
class MemoryLedger {
 public:
  /// Reserved memory; given back when destroyed. Move-only, single-owner. The
  /// ledger must outlive it.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept { *this = std::move(other); }
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation();

    /// The strategy is idle: keeps reserved only the memory of its warm caches.
    void Rest();

    const strategy::MemoryEstimate& estimate() const { return estimate_; }

   private:
    friend class MemoryLedger;

    MemoryLedger* ledger_ = nullptr;
    strategy::MemoryEstimate estimate_;
    bool resting_ = false;
  };

  /// Jobs may reserve `limit_bytes` of the host's memory in all.
  explicit MemoryLedger(uint64_t limit_bytes,
                        MachineMemory machine = MachineMemory::Real());
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  /// Sets the limit of the memory of GPU `number`. Call before any job reserves
  /// memory; GPUs that were not added have no limit.
  void AddGpu(int number, uint64_t limit_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sets the function that is called when a job needs memory that is only kept
  /// warm: it frees one warm object and returns true, or returns false if there
  /// is none. Called without locks held.
  void SetReclaim(std::function<bool()> reclaim) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sets the function that is called after running jobs have given memory
  /// back, on the thread that did so, without locks held; null = none.
  void SetOnRelease(std::function<void()> on_release)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Changes `reservation`, which may be empty or resting, to `estimate`.
  /// Reclaims warm memory if necessary. RESOURCE_EXHAUSTED, with the numbers,
  /// if memory does not suffice; the cause is WaitCause::kMemory or kGpuMemory
  /// if others hold the memory, and so may give it back. Leaves the reservation
  /// unchanged after an error.
  absl::Status Reserve(const strategy::MemoryEstimate& estimate,
                       Reservation& reservation) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether memory for a new reservation of `bytes` is available now. Warm
  /// memory counts as available.
  MemoryAvailability Availability(uint64_t bytes) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t limit_bytes() const { return limit_bytes_; }
  /// Upper bound of a single reservation: the limit, or the machine's memory if
  /// that is less.
  uint64_t most_bytes() const {
    return machine_.capacity == 0 ? limit_bytes_
                                  : std::min(limit_bytes_, machine_.capacity);
  }
  /// Bytes reserved by running jobs, and bytes kept warm.
  uint64_t reserved_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t warm_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// The memory of a GPU, in bytes.
  struct GpuUse {
    uint64_t limit_bytes = UINT64_MAX;
    /// Memory reserved by running jobs or kept warm, in bytes.
    uint64_t taken_bytes = 0;
  };
  /// Use of each GPU that was added or used, by its number.
  std::map<int, GpuUse> gpus() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Bytes reserved or kept warm, by owner of the shares; an owner stays listed
  /// with 0.
  std::map<std::string, uint64_t> BytesByOwner() const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Availability of `bytes` when others have reserved `taken` bytes.
  MemoryAvailability AvailabilityBeside(uint64_t taken, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error of Reserve, if `estimate` is not available in place of `now`.
  absl::Status CheckAvailable(const strategy::MemoryEstimate& estimate,
                              const strategy::MemoryEstimate& now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckGpuAvailable(const strategy::MemoryEstimate& estimate,
                                 const strategy::MemoryEstimate& now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The sum to which the share counts: of its owner, or of its GPU.
  uint64_t& SumOf(const strategy::MemoryShare& share)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const Reservation& reservation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Subtract(const Reservation& reservation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t limit_bytes_;
  const MachineMemory machine_;
  // Memory that the process held before any job.
  const uint64_t base_bytes_;
  mutable absl::Mutex mutex_;
  std::function<bool()> reclaim_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_release_ ABSL_GUARDED_BY(mutex_);
  uint64_t reserved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t warm_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> by_owner_ ABSL_GUARDED_BY(mutex_);
  std::map<int, GpuUse> gpus_ ABSL_GUARDED_BY(mutex_);
};

/// Part of an error message about a model that is too large: its numbers, and
/// what to reduce. Arguments as in ModelMemory::Model.
std::string DescribeModel(uint64_t parameter_bytes, uint64_t kept_bytes);

/// The memory of models that are trained on the same batches, of which only
/// some make a step at a time: the kept bytes of each, and the bytes of the
/// largest steps. The first model's memory is reserved with the strategy's;
/// this reserves what the other models need in addition. Thread-compatible.
class ModelMemory {
 public:
  /// The memory of one model, in bytes.
  struct Model {
    /// Bytes in all, while the model makes a step.
    uint64_t bytes = 0;
    /// Part of `bytes` that stays allocated between steps.
    uint64_t kept_bytes = 0;
    /// Part of `kept_bytes` that is one copy of the parameters.
    uint64_t parameter_bytes = 0;
  };

  /// At most `max_steps` models make a step at a time. `ledger` outlives this.
  ModelMemory(MemoryLedger& ledger, int max_steps)
      : ledger_(ledger), max_steps_(max_steps) {}
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  /// Adds the model of `owner` and reserves the additional memory. Errors as
  /// MemoryLedger::Reserve; the model is then not added.
  absl::Status Add(const void* owner, const Model& model);

  /// Removes the model of `owner`, if it was added, and gives back the memory
  /// that the others do not need.
  void Remove(const void* owner);

  /// Most bytes reserved at a time in addition to the first model's.
  uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  // Bytes that all models need in addition to the first one's reservation.
  uint64_t NeededBytes() const;

  MemoryLedger& ledger_;
  const int max_steps_;
  // Bytes of the first model; they stay reserved with the strategy, also after
  // the model is removed.
  uint64_t first_bytes_ = 0;
  std::map<const void*, Model> models_;
  std::vector<MemoryLedger::Reservation> reservations_;
  uint64_t reserved_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
};

/// Samples the process's own memory (RssAnon + RssShmem, without file pages of
/// mappings) twenty times a second, on a thread that lives as long as the
/// object, and keeps the maximum. Thread-safe.
class MemorySampler {
 public:
  virtual ~MemorySampler() = default;

  /// The maximum so far, in bytes, including the present value.
  virtual uint64_t PeakBytes() = 0;
};

std::unique_ptr<MemorySampler> NewMemorySampler();

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_MEMORY_LEDGER_H_
