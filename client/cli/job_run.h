#ifndef HEARTH_CLIENT_CLI_JOB_RUN_H_
#define HEARTH_CLIENT_CLI_JOB_RUN_H_

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// Submits a job and watches it to its end (`detach`: only says its id).
/// Prints the job or its outcome; gives the exit code.
absl::StatusOr<int> RunJob(Session& session, const v1::JobSpec& spec,
                           bool detach);

/// Watches a job that is there already, likewise.
absl::StatusOr<int> FollowJob(Session& session, const v1::Job& job);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_JOB_RUN_H_
