#ifndef HEARTH_ENGINE_IO_URING_H_
#define HEARTH_ENGINE_IO_URING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

/// The seam between a queue and io_uring, so that tests can make the kernel
/// refuse, interrupt and fail. Errors are negative errno values.

namespace hearth::io {

/// A read for the ring.
struct RingRead {
  uint64_t tag = 0;
  int descriptor = -1;
  /// Numbers of the registered file and of the registered memory, or -1.
  int file = -1;
  int memory = -1;
  uint64_t offset = 0;
  absl::Span<std::byte> out;
};

/// The result of an entry: bytes read, -ETIME for a timeout, or an error.
struct RingCompletion {
  uint64_t tag = 0;
  int32_t result = 0;
};

/// Submission and completion queue. Single-owner.
class Ring {
 public:
  virtual ~Ring() = default;

  /// Puts an entry into the submission queue. REQUIRES: at most as many entries
  /// as the ring was made for are prepared, in the kernel or not reaped, and at
  /// most one of each tag.
  virtual void PrepareRead(const RingRead& read) = 0;
  virtual void PrepareTimeout(uint64_t tag, absl::Duration delay) = 0;

  /// Prepared entries that the kernel has not taken. They stay in the
  /// submission queue when Enter fails: do not prepare them again.
  virtual size_t prepared() const = 0;

  /// Takes the prepared entries back; appends their tags to `tags`.
  virtual void Withdraw(std::vector<uint64_t>& tags) = 0;

  /// Hands the prepared entries to the kernel, then waits until `wait_for`
  /// completions are there. 0, even if not all were taken, or an error.
  virtual int Enter(size_t wait_for) = 0;

  /// Waits for one completion; hands no entries to the kernel.
  virtual int WaitForOne() = 0;

  /// Appends the completions there are.
  virtual void Reap(std::vector<RingCompletion>& completions) = 0;

  /// Number of completions so far for which the completion queue had no place.
  virtual uint32_t overflows() const = 0;

  /// Registers a file or memory, which the kernel holds until it is
  /// unregistered. Returns the number to read with, or an error where the
  /// kernel, or its limit on locked memory, forbids.
  virtual int RegisterFile(int descriptor) = 0;
  virtual void UnregisterFile(int number) = 0;
  virtual int RegisterMemory(absl::Span<std::byte> memory) = 0;
  virtual void UnregisterMemory(int number) = 0;
};

/// A ring of the kernel for `entries` at once. UNIMPLEMENTED or
/// PERMISSION_DENIED where the kernel has or allows none; RESOURCE_EXHAUSTED
/// for lack of memory (counted against RLIMIT_MEMLOCK of users without
/// CAP_IPC_LOCK) or descriptors.
absl::StatusOr<std::unique_ptr<Ring>> NewKernelRing(size_t entries);

/// A function like NewKernelRing; tests have one that refuses.
using RingMaker =
    std::function<absl::StatusOr<std::unique_ptr<Ring>>(size_t entries)>;

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_URING_H_
