#ifndef HEARTH_SERVER_MAPPING_RESUME_CHECKS_H_
#define HEARTH_SERVER_MAPPING_RESUME_CHECKS_H_

#include "absl/status/status.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::server {

/// Whether a job of `spec` may go on with `next`: both with defaults filled in,
/// and different at most in options that change no result. INVALID_ARGUMENT
/// naming the fields at fault.
absl::Status CheckChangesNoResult(const v1::JobSpec& spec,
                                  const v1::JobSpec& next);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_RESUME_CHECKS_H_
