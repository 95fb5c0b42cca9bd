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

namespace hearth::job {

/// The machine's memory, in bytes; replaced in tests.
struct MachineMemory {
  /// Memory that new allocations may take; 0 = unknown.
  std::function<uint64_t()> available;
  /// Memory that this process holds.
  std::function<uint64_t()> used;
  /// All memory that there is, in use or not; 0 = unknown.
  uint64_t capacity = 0;

  static MachineMemory Real();
};

/// The memory that all jobs together may take by default: nine tenths of the
/// machine's or the container's, less the memory that this process holds.
uint64_t DefaultMemoryLimit();

/// Whether there is room for a reservation.
enum class MemoryAvailability {
  kFree,
  /// Once running jobs have given theirs back.
  kHeldByJobs,
  /// Once other processes of the machine have.
  kHeldByOthers,
  kNever,
};

/// The account of memory, the host's and that of GPUs: jobs reserve the upper
/// bound of their memory before they take any, so that none of them, and no
/// other process, is killed for want of memory. Nobody waits in it: who finds
/// no room tries again when memory was given back. Figures without a GPU are of
/// the host. Thread-safe.
class MemoryLedger {
 public:
  /// Memory reserved; given back when destroyed. Move-only, single-owner. The
  /// ledger must outlive it.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept { *this = std::move(other); }
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation();

    /// Nothing runs with it any more: keeps only what is worth keeping warm.
    void Rest();

    const strategy::MemoryEstimate& estimate() const { return estimate_; }

   private:
    friend class MemoryLedger;

    MemoryLedger* ledger_ = nullptr;
    strategy::MemoryEstimate estimate_;
    bool resting_ = false;
  };

  /// Jobs may reserve `limit_bytes` in all.
  explicit MemoryLedger(uint64_t limit_bytes,
                        MachineMemory machine = MachineMemory::Real());
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  /// Jobs may reserve `limit_bytes` of the memory of GPU `number`. To be called
  /// before any does; shares of GPUs that were not added have no limit.
  void AddGpu(int number, uint64_t limit_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sets the function that is called when a job needs memory that is only kept
  /// warm: it gives up one thing and returns true, or has none. Called without
  /// locks held.
  void SetReclaim(std::function<bool()> reclaim) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sets the function that is called after running jobs have given memory
  /// back, on the thread that did so, without locks held. Null = none.
  void SetOnRelease(std::function<void()> on_release)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes `reservation`, which may hold nothing yet or rest, one of
  /// `estimate`. Takes what is kept warm if need be. RESOURCE_EXHAUSTED, with
  /// the numbers, if there is no room: of cause WaitCause::kMemory or
  /// kGpuMemory where others hold the memory, and so may give it back. After an
  /// error the reservation is what it was.
  absl::Status Reserve(const strategy::MemoryEstimate& estimate,
                       Reservation& reservation) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether a new reservation of `bytes` would find room now. Warm memory
  /// counts as free.
  MemoryAvailability Availability(uint64_t bytes) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t limit_bytes() const { return limit_bytes_; }
  /// The most that a reservation can ever be: the limit, or the machine's
  /// memory if that is less.
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
    /// Reserved by running jobs, and kept warm.
    uint64_t taken_bytes = 0;
  };
  /// The use of each GPU that was added or used, by its number.
  std::map<int, GpuUse> gpus() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Both, by the owners of shares; owners stay listed.
  std::map<std::string, uint64_t> BytesByOwner() const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // For `bytes`, with `taken` bytes taken by others.
  MemoryAvailability AvailabilityBeside(uint64_t taken, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The error of Reserve, if there is no room for `estimate` in the place of
  // `now`.
  absl::Status CheckAvailable(const strategy::MemoryEstimate& estimate,
                              const strategy::MemoryEstimate& now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckGpuAvailable(const strategy::MemoryEstimate& estimate,
                                 const strategy::MemoryEstimate& now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The sum of all shares of this one's owner, or of its GPU.
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

/// For an error about a model of these bytes (ModelMemory::Model): the numbers,
/// and what needs less.
std::string DescribeModel(uint64_t parameter_bytes, uint64_t kept_bytes);

/// The memory of models that are trained on the same batches, of which only
/// some make a step at a time: what each keeps between steps, and the largest
/// of the steps. The first model's memory is reserved with the strategy's; here
/// is what the others need beside it. Thread-compatible.
class ModelMemory {
 public:
  /// The memory of one model, in bytes.
  struct Model {
    /// In all, while it makes a step.
    uint64_t bytes = 0;
    /// The part of these that stays between steps.
    uint64_t kept_bytes = 0;
    /// The part of these that is one copy of the parameters.
    uint64_t parameter_bytes = 0;
  };

  /// At most `max_steps` models make a step at a time. `ledger` outlives this.
  ModelMemory(MemoryLedger& ledger, int max_steps)
      : ledger_(ledger), max_steps_(max_steps) {}
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  /// Adds the model of `owner`, with a reservation of what it needs more than
  /// is reserved. Errors as MemoryLedger::Reserve; then it is not added.
  absl::Status Add(const void* owner, const Model& model);

  /// Removes it, if it is there, and gives back what the others do not need.
  void Remove(const void* owner);

  /// The most bytes that were reserved at a time beside the first model's.
  uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  // Bytes that all of them need beside the first one's reservation.
  uint64_t NeededBytes() const;

  MemoryLedger& ledger_;
  const int max_steps_;
  // The bytes of the first one; reserved with the strategy as long as that is.
  uint64_t first_bytes_ = 0;
  std::map<const void*, Model> models_;
  std::vector<MemoryLedger::Reservation> reservations_;
  uint64_t reserved_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
};

/// Samples the process's memory (RssAnon + RssShmem: what it owns; file pages
/// of mappings do not count) twenty times a second on a thread of its own, from
/// construction to destruction, and keeps the highest. Thread-safe.
class MemorySampler {
 public:
  virtual ~MemorySampler() = default;

  /// The highest so far, in bytes, the present moment included.
  virtual uint64_t PeakBytes() = 0;
};

std::unique_ptr<MemorySampler> NewMemorySampler();

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_MEMORY_LEDGER_H_
