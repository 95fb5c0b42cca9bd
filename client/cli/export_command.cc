#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/job_run.h"
#include "client/cli/submission.h"

namespace hearth::cli {
namespace {

struct ExportArguments {
  std::string job;
  std::string destination;
  Submission submission;
};

absl::StatusOr<int> Export(const ExportArguments& arguments, Session& session) {
  v1::JobSpec spec;
  spec.mutable_export_()->set_job_id(arguments.job);
  spec.mutable_export_()->set_destination(
      AbsolutePath(arguments.destination, session));
  return RunJob(session, spec, arguments.submission);
}

}  // namespace

void AddExportCommand(CLI::App& app, Action* chosen) {
  CLI::App* command = app.add_subcommand(
      "export",
      "Write a job's model as model.safetensors and config.json to a new "
      "folder on the daemon's machine");
  const auto arguments = std::make_shared<ExportArguments>();
  command->add_option("JOB", arguments->job, "Id of a train job that succeeded")
      ->required();
  command
      ->add_option("--to", arguments->destination,
                   "New folder on the daemon's machine")
      ->required();
  AddSubmissionFlags(*command, arguments->submission);
  command->callback([=] {
    *chosen = [=](Session& session) { return Export(*arguments, session); };
  });
}

}  // namespace hearth::cli
