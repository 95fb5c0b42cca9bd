#include "client/cli/submission.h"

#include <CLI/CLI.hpp>

namespace hearth::cli {

void AddSubmissionFlags(CLI::App& command, Submission& submission) {
  command.add_flag("--detach", submission.detach,
                   "Print the job's id and do not wait for its end");
  command
      .add_option("--priority", submission.priority,
                  "Priority, -100 to 100; jobs of higher priority run first, "
                  "jobs of equal priority in order of submission; default 0")
      ->check(CLI::Range(-100, 100))
      ->take_last();
}

}  // namespace hearth::cli
