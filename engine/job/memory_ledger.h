#ifndef HEARTH_ENGINE_JOB_MEMORY_LEDGER_H_
#define HEARTH_ENGINE_JOB_MEMORY_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/strategy/memory_estimate.h"

namespace hearth::job {

/// The machine's memory, in bytes; replaced in tests.
struct MachineMemory {
  /// Memory that new allocations may take; 0 = unknown.
  std::function<uint64_t()> available;
  /// Memory that this process holds.
  std::function<uint64_t()> used;

  static MachineMemory Real();
};

/// The memory that all jobs together may take by default: nine tenths of the
/// machine's or the container's, less the memory that this process holds.
uint64_t DefaultMemoryLimit();

/// The account of memory: jobs reserve the upper bound of their memory before
/// they take any, so that none of them, and no other process, is killed for
/// want of memory. Thread-safe.
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

  /// Sets the function that is called when a job needs memory that is only kept
  /// warm: it gives up one thing and returns true, or has none. Called without
  /// locks held.
  void SetReclaim(std::function<bool()> reclaim) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes `reservation`, which may hold nothing yet or rest, one of
  /// `estimate`. Takes what is kept warm if need be, then waits for other jobs
  /// to end, saying so once by `on_wait`. RESOURCE_EXHAUSTED, with the numbers,
  /// if that does not help; CANCELLED when `stop` is requested. After an error
  /// the reservation is what it was.
  absl::Status Reserve(const strategy::MemoryEstimate& estimate,
                       Reservation& reservation, std::stop_token stop,
                       absl::FunctionRef<void(const std::string&)> on_wait)
      ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t limit_bytes() const { return limit_bytes_; }
  /// Bytes reserved by running jobs, and bytes kept warm.
  uint64_t reserved_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t warm_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Both, by the owners of shares; owners stay listed.
  std::map<std::string, uint64_t> BytesByOwner() const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Room { kFits, kNotNow, kNever };

  Room RoomFor(uint64_t bytes, uint64_t held) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refuse(const strategy::MemoryEstimate& estimate) const
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
  // Signalled when memory is given back, and when a waiting job is to stop.
  absl::CondVar changed_;
  std::function<bool()> reclaim_ ABSL_GUARDED_BY(mutex_);
  uint64_t reserved_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t warm_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> by_owner_ ABSL_GUARDED_BY(mutex_);
  // Jobs with a reservation, and jobs that wait for one (or for a larger one).
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_LEDGER_H_
