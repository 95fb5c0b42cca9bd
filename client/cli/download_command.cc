#include <CLI/CLI.hpp>
#include <memory>
#include <stop_token>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/transfer_progress.h"
#include "client/model_folder.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct DownloadArguments {
  std::string job;
  std::string path;
  bool force = false;
};

absl::StatusOr<int> Download(const DownloadArguments& arguments,
                             Session& session) {
  Environment& environment = session.environment;
  const std::string path = AbsolutePath(arguments.path, session);
  const std::stop_token interrupted = environment.catch_interrupts();
  TransferProgress progress(session);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<client::ModelFolder> folder,
      client::ModelFolder::Open(path, arguments.force,
                                [&progress](uint64_t done, uint64_t total) {
                                  progress.Show("downloading", done, total);
                                }));
  const absl::Status downloaded =
      session.client.DownloadModel(arguments.job, *folder, interrupted);
  progress.Clear();
  if (interrupted.stop_requested()) {
    environment.err << "what has come stays in " << EscapeControl(path)
                    << ".part: the same command goes on from there\n";
    return kExitInterrupted;
  }
  HEARTH_RETURN_IF_ERROR(downloaded);
  HEARTH_RETURN_IF_ERROR(folder->Finish());
  if (session.output == Output::kJson) {
    PrintJson({{"job", arguments.job}, {"path", path}}, session);
  } else {
    environment.out << "model: " << EscapeControl(path) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddDownloadCommand(CLI::App& jobs, Action* chosen) {
  CLI::App* command = jobs.add_subcommand(
      "download",
      "Bring a job's model as model.safetensors and config.json to a new "
      "folder on this machine");
  const auto arguments = std::make_shared<DownloadArguments>();
  command->add_option("JOB", arguments->job, "Id of a train job that succeeded")
      ->required();
  command
      ->add_option("--to", arguments->path,
                   "New folder on this machine; until the model is complete it "
                   "is named PATH.part, and an interrupted download goes on "
                   "from there")
      ->required();
  command->add_flag("--force", arguments->force,
                    "Replace the model that is in the folder");
  command->callback([=] {
    *chosen = [=](Session& session) { return Download(*arguments, session); };
  });
}

}  // namespace hearth::cli
