#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/job_run.h"
#include "client/cli/resume_options.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct ResumeArguments {
  std::string id;
  // Written by the parser; the nodes of a map stay where they are.
  std::map<std::string, std::string> flags;
  // The options given on the command line.
  OptionValues values;
  bool detach = false;
};

absl::StatusOr<int> Resume(const ResumeArguments& arguments, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                          session.client.GetJob(arguments.id));
  v1::JobSpec spec = job.spec();
  HEARTH_RETURN_IF_ERROR(ChangeOptions(arguments.values, spec));
  HEARTH_ASSIGN_OR_RETURN(const v1::Job resumed,
                          session.client.ResumeJob(arguments.id, spec));
  return FollowOrDetach(session, resumed, arguments.detach);
}

}  // namespace

void AddResumeCommand(CLI::App& jobs, Action* chosen) {
  CLI::App* command =
      jobs.add_subcommand("resume",
                          "Go on with a job that failed or was cancelled, from "
                          "its last checkpoint");
  const auto arguments = std::make_shared<ResumeArguments>();
  command->add_option("ID", arguments->id, "The job's id")->required();
  command->add_flag("--detach", arguments->detach,
                    "Print the job's id and do not wait for its end");
  std::map<std::string, CLI::Option*> options;
  for (const Flag& flag : ResumeFlags()) {
    options[flag.name] =
        command
            ->add_option(absl::StrCat("--", flag.name),
                         arguments->flags[flag.name],
                         absl::StrCat(flag.Help(), " (default: as it was)"))
            ->type_name(flag.ValueName())
            ->group("Options that may change; none changes the result")
            ->take_last();
  }
  command->callback([=] {
    for (const auto& [name, option] : options) {
      if (option->count() == 0) continue;
      arguments->values[name] = {arguments->flags[name],
                                 absl::StrCat("--", name)};
    }
    *chosen = [=](Session& session) { return Resume(*arguments, session); };
  });
}

}  // namespace hearth::cli
