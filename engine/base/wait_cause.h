#ifndef HEARTH_ENGINE_BASE_WAIT_CAUSE_H_
#define HEARTH_ENGINE_BASE_WAIT_CAUSE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hearth {

/// Why work that failed may succeed if it is tried again later.
enum class WaitCause {
  /// It may not: the error is final.
  kNone,
  /// Memory is held by others, for now.
  kMemory,
  /// Memory of a GPU is held by other jobs, for now.
  kGpuMemory,
  /// A disk is full: ErrnoStatus of ENOSPC and EDQUOT, WaitForDiskSpace.
  kDiskSpace,
  /// Plans of other jobs are in use, for now: WaitForPlanSpace.
  kPlanSpace,
  /// A disk does not answer, or does so with EIO: every UNAVAILABLE.
  kDisk,
};

/// The cause that `status` names. It survives Annotate and all that copies a
/// status.
WaitCause WaitCauseOf(const absl::Status& status);

/// RESOURCE_EXHAUSTED of cause kMemory: `needed_bytes` were asked for.
absl::Status WaitForMemoryError(absl::string_view message,
                                uint64_t needed_bytes);

/// RESOURCE_EXHAUSTED of cause kGpuMemory.
absl::Status WaitForGpuMemoryError(absl::string_view message);

/// `status` with the cause kDiskSpace.
absl::Status WaitForDiskSpace(absl::Status status);

/// `status` with the cause kPlanSpace: a plan needs `needed_bytes` in all.
absl::Status WaitForPlanSpace(absl::Status status, uint64_t needed_bytes);

/// The bytes that WaitForMemoryError or WaitForPlanSpace was told; 0 for other
/// statuses.
uint64_t BytesNeededBy(const absl::Status& status);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_WAIT_CAUSE_H_
