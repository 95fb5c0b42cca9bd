#ifndef HEARTH_ENGINE_BASE_STATUS_H_
#define HEARTH_ENGINE_BASE_STATUS_H_

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

/// Errors: returning them, naming context and errno in their messages, telling
/// whether to try again, and making them of exceptions. Thread-safe.

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

/// Status for a system call on `subject` (such as a path) that failed with
/// errno `error`: "`subject`: `operation`: No such file or directory". ENOSPC,
/// EDQUOT and ENOMEM give RESOURCE_EXHAUSTED, EIO gives UNAVAILABLE, other
/// values the code of absl::ErrnoToStatus.
absl::Status ErrnoStatus(int error, absl::string_view subject,
                         absl::string_view operation);

/// Reason why failed work may succeed if it is tried again later.
enum class WaitCause {
  /// The error is final: trying again is no use.
  kNone,
  /// Others hold the memory, for now.
  kMemory,
  /// Other jobs hold the GPU's memory, for now.
  kGpuMemory,
  /// A disk is full: set by ErrnoStatus for ENOSPC and EDQUOT, and by
  /// WaitForDiskSpace.
  kDiskSpace,
  /// Plans of other jobs take up the space, for now: set by WaitForPlanSpace.
  kPlanSpace,
  /// The job's client asks for nothing, for now: set by WaitForClientError.
  kClient,
  /// Another machine of the job is not there, for now: set by
  /// WaitForPeerError.
  kPeer,
  /// A disk does not answer, or fails with EIO: every other UNAVAILABLE status.
  kDisk,
};

/// Cause recorded in `status`. Annotate and copies of a status keep it.
WaitCause WaitCauseOf(const absl::Status& status);

/// RESOURCE_EXHAUSTED of cause kMemory: `needed_bytes` were asked for.
absl::Status WaitForMemoryError(absl::string_view message,
                                uint64_t needed_bytes);

/// RESOURCE_EXHAUSTED of cause kGpuMemory.
absl::Status WaitForGpuMemoryError(absl::string_view message);

/// UNAVAILABLE of cause kClient.
absl::Status WaitForClientError(absl::string_view message);

/// UNAVAILABLE of cause kPeer.
absl::Status WaitForPeerError(absl::string_view message);

/// `status` with the cause kDiskSpace.
absl::Status WaitForDiskSpace(absl::Status status);

/// `status` with the cause kPlanSpace: a plan needs `needed_bytes` in all.
absl::Status WaitForPlanSpace(absl::Status status, uint64_t needed_bytes);

/// Value of `needed_bytes` given to WaitForMemoryError or WaitForPlanSpace; 0
/// for other statuses.
uint64_t BytesNeededBy(const absl::Status& status);

/// Calls `call` and returns its status. An exception becomes RESOURCE_EXHAUSTED
/// if it is std::bad_alloc, else INTERNAL with the exception's text. For the
/// root of every thread, where an exception would end the process.
absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_STATUS_H_
