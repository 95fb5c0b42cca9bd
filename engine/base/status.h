#ifndef HEARTH_ENGINE_BASE_STATUS_H_
#define HEARTH_ENGINE_BASE_STATUS_H_

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

/// Errors: returning them, saying whose they are, telling whether to try again,
/// and making them of exceptions.

/// Returns from the enclosing function if `expression`, an absl::Status, is an
/// error.
#define HEARTH_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status hearth_status_ = (expression); !hearth_status_.ok()) { \
      return hearth_status_;                                                \
    }                                                                       \
  } while (false)

/// Evaluates `expression`, an absl::StatusOr<T>; assigns its value to `target`
/// (which may declare a variable) or returns its error.
#define HEARTH_ASSIGN_OR_RETURN(target, expression)                        \
  HEARTH_ASSIGN_OR_RETURN_IMPL_(HEARTH_CONCATENATE_(hearth_or_, __LINE__), \
                                target, expression)

#define HEARTH_ASSIGN_OR_RETURN_IMPL_(statusor, target, expression) \
  auto statusor = (expression);                                     \
  if (!statusor.ok()) return std::move(statusor).status();          \
  target = *std::move(statusor)

#define HEARTH_CONCATENATE_(a, b) HEARTH_CONCATENATE_IMPL_(a, b)
#define HEARTH_CONCATENATE_IMPL_(a, b) a##b

namespace hearth {

/// `status` with "`context`: " before its message; its code and payloads stay.
/// An OK status is returned as it is.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

/// The status for `errno` value `error` of a system call on `subject` (a path,
/// say): "`subject`: `operation`: No such file or directory". ENOSPC and
/// memory exhaustion give RESOURCE_EXHAUSTED, EIO gives UNAVAILABLE,
/// otherwise as absl::ErrnoToStatus.
absl::Status ErrnoStatus(int error, absl::string_view subject,
                         absl::string_view operation);

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

/// Calls `call` and returns its status, or that of the exception that it threw:
/// RESOURCE_EXHAUSTED for a lack of memory, INTERNAL with its text for any
/// other. At the root of every thread, where an exception would end the
/// process.
absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_STATUS_H_
