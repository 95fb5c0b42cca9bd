#ifndef HEARTH_CLIENT_CLI_SUBMISSION_H_
#define HEARTH_CLIENT_CLI_SUBMISSION_H_

#include <CLI/App.hpp>

namespace hearth::cli {

/// How a command submits its job.
struct Submission {
  /// Only the job's id is printed; nobody waits for its end.
  bool detach = false;
  /// See hearth.v1.SubmitJobRequest.
  int priority = 0;
};

/// Adds the flags of a submission to a command that submits a job.
/// `submission` must live as long as the command.
void AddSubmissionFlags(CLI::App& command, Submission& submission);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_SUBMISSION_H_
