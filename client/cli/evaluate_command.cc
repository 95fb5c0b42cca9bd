#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/job_run.h"
#include "client/cli/submission.h"

namespace hearth::cli {
namespace {

struct EvaluateArguments {
  std::string job;
  Submission submission;
};

absl::StatusOr<int> Evaluate(const EvaluateArguments& arguments,
                             Session& session) {
  v1::JobSpec spec;
  spec.mutable_evaluate()->set_job_id(arguments.job);
  return RunJob(session, spec, arguments.submission);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Action* chosen) {
  CLI::App* command = app.add_subcommand(
      "evaluate", "Evaluate a job's model on the test nodes, without training");
  const auto arguments = std::make_shared<EvaluateArguments>();
  command->add_option("JOB", arguments->job, "Id of a train job that succeeded")
      ->required();
  AddSubmissionFlags(*command, arguments->submission);
  command->callback([=] {
    *chosen = [=](Session& session) { return Evaluate(*arguments, session); };
  });
}

}  // namespace hearth::cli
