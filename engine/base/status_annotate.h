#ifndef HEARTH_ENGINE_BASE_STATUS_ANNOTATE_H_
#define HEARTH_ENGINE_BASE_STATUS_ANNOTATE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

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

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_STATUS_ANNOTATE_H_
