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
  /// A disk is full: ErrnoStatus of ENOSPC and EDQUOT, WaitForDiskSpace.
  kDiskSpace,
  /// A disk does not answer, or does so with EIO: every UNAVAILABLE.
  kDisk,
};

/// The cause that `status` names. It survives Annotate and all that copies a
/// status.
WaitCause WaitCauseOf(const absl::Status& status);

/// RESOURCE_EXHAUSTED of cause kMemory: `needed_bytes` were asked for.
absl::Status WaitForMemoryError(absl::string_view message,
                                uint64_t needed_bytes);

/// `status` with the cause kDiskSpace.
absl::Status WaitForDiskSpace(absl::Status status);

/// The bytes that WaitForMemoryError was told; 0 for other statuses.
uint64_t MemoryNeededBy(const absl::Status& status);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_WAIT_CAUSE_H_
