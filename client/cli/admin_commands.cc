#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/job_run.h"
#include "client/proto_json.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

absl::StatusOr<int> BackUp(const std::string& destination, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(
      const v1::BackupReport report,
      session.client.BackUp(AbsolutePath(destination, session)));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(report), session);
  } else {
    session.environment.out << EscapeControl(report.path()) << ": "
                            << Counted(report.jobs(), "job") << ", "
                            << Counted(report.models(), "model") << ", "
                            << FormatByteSize(report.size_bytes()) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> Drain(bool draining, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Status status,
                          session.client.SetDraining(draining));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(status), session);
  } else {
    session.environment.out
        << "takes new jobs: " << (status.draining() ? "no" : "yes") << "; "
        << status.jobs_running() << " running, " << status.jobs_queued()
        << " queued\n";
  }
  return kExitDone;
}

}  // namespace

void AddAdminCommands(CLI::App& app, Action* chosen, Action* chosen_local) {
  CLI::App* admin = app.add_subcommand("admin", "For operators of the daemon");
  admin->require_subcommand(1);
  AddTokenCommands(*admin, chosen);
  AddCertsCommand(*admin, chosen_local);
  CLI::App* backup = admin->add_subcommand(
      "backup",
      "Copy the jobs, their results and their models to a new folder on the "
      "daemon's machine, while it runs. A copy of that folder is a data "
      "directory: start hearthd on it to restore. Datasets, plans and "
      "checkpoints are not copied: import datasets again, or copy datasets/ "
      "while no job makes or deletes one");
  const auto destination = std::make_shared<std::string>();
  backup->add_option("--to", *destination, "New folder on the daemon's machine")
      ->required();
  backup->callback([=] {
    *chosen = [=](Session& session) { return BackUp(*destination, session); };
  });
  CLI::App* drain = admin->add_subcommand(
      "drain",
      "Take no new jobs and begin no trials of sweeps until the daemon is "
      "restarted, so that it runs empty");
  const auto off = std::make_shared<bool>(false);
  drain->add_flag("--off", *off, "Take new jobs again");
  drain->callback([=] {
    *chosen = [=](Session& session) { return Drain(!*off, session); };
  });
}

}  // namespace hearth::cli
