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
  /// Number of the registered file or memory, or -1.
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

  /// Puts an entry into the submission queue. REQUIRES: no more entries are
  /// prepared, in the kernel or unreaped than the ring was made for, and one
  /// of each tag at most.
  virtual void PrepareRead(const RingRead& read) = 0;
  virtual void PrepareTimeout(uint64_t tag, absl::Duration delay) = 0;

  /// Prepared entries that the kernel has not taken. They stay in the
  /// submission queue when Enter fails: do not prepare them again.
  virtual size_t prepared() const = 0;

  /// Takes the prepared entries back; appends their tags.
  virtual void Withdraw(std::vector<uint64_t>& tags) = 0;

  /// Hands the prepared entries to the kernel, then waits until `wait_for`
  /// completions are there. 0, even if not all were taken, or an error.
  virtual int Enter(size_t wait_for) = 0;

  /// Waits for one completion, and hands over nothing.
  virtual int WaitForOne() = 0;

  /// Appends the completions there are.
  virtual void Reap(std::vector<RingCompletion>& completions) = 0;

  /// Completions that found no room, ever.
  virtual uint32_t overflows() const = 0;

  /// The number to read with, or an error where the kernel, or its limit on
  /// locked memory, forbids; the kernel keeps hold of both until then.
  virtual int RegisterFile(int descriptor) = 0;
  virtual void UnregisterFile(int number) = 0;
  virtual int RegisterMemory(absl::Span<std::byte> memory) = 0;
  virtual void UnregisterMemory(int number) = 0;
};

/// A ring of the kernel for `entries` at once. UNIMPLEMENTED,
/// PERMISSION_DENIED, or RESOURCE_EXHAUSTED (memory, which for users without
/// CAP_IPC_LOCK counts against RLIMIT_MEMLOCK; descriptors).
absl::StatusOr<std::unique_ptr<Ring>> NewKernelRing(size_t entries);

/// A function like NewKernelRing; tests have one that refuses.
using RingMaker =
    std::function<absl::StatusOr<std::unique_ptr<Ring>>(size_t entries)>;

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_URING_H_
