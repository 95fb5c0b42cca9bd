#ifndef HEARTH_CLIENT_CLI_JOB_RUN_H_
#define HEARTH_CLIENT_CLI_JOB_RUN_H_

#include <cstdint>
#include <optional>
#include <stop_token>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "client/cli/submission.h"
#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// Submits a job and watches it to its end (detached: only says its id).
/// Prints the job or its outcome; gives the exit code.
absl::StatusOr<int> RunJob(Session& session, const v1::JobSpec& spec,
                           const Submission& submission);

/// The same for a job that is there already, from its newest event on.
absl::StatusOr<int> FollowOrDetach(Session& session, const v1::Job& job,
                                   bool detach);

/// Shows a job's events from `from_sequence` on until it has ended, and gives
/// it then; nullopt if `stop` ended that.
absl::StatusOr<std::optional<v1::Job>> WatchToEnd(Session& session,
                                                  const v1::Job& job,
                                                  uint64_t from_sequence,
                                                  std::stop_token stop);

/// Prints a job that has ended, or its outcome; gives the exit code.
int PrintEnded(Session& session, const v1::Job& job);

/// Watches a job from its event `from_sequence` on, likewise.
absl::StatusOr<int> FollowJob(Session& session, const v1::Job& job,
                              uint64_t from_sequence = 1);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_JOB_RUN_H_
