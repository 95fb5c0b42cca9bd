#ifndef HEARTH_CLIENT_CLI_COMMANDS_H_
#define HEARTH_CLIENT_CLI_COMMANDS_H_

#include <CLI/App.hpp>

#include "client/cli/completion.h"
#include "client/cli/session.h"

namespace hearth::cli {

// Each adds commands to `app`. Parsing sets `chosen` to what the command line
// asks for; nothing is done before the action is called.

/// dataset import | upload | uploads | generate | list | show | verify |
/// export | delete
void AddDatasetCommands(CLI::App& app, Action* chosen);

/// dataset import and upload: for AddDatasetCommands.
void AddImportCommands(CLI::App& dataset, Action* chosen);

/// dataset uploads list | delete: for AddDatasetCommands.
void AddUploadsCommands(CLI::App& dataset, Action* chosen);

/// dataset generate: for AddDatasetCommands.
void AddGenerateCommand(CLI::App& dataset, Action* chosen);

/// train | prepare | explain
void AddTrainCommands(CLI::App& app, Action* chosen);

/// run, which starts a daemon of its own
void AddRunCommand(CLI::App& app, Action* chosen_local);

/// plan list | show | delete
void AddPlanCommands(CLI::App& app, Action* chosen);

/// job list | show | watch | logs | cancel | resume | delete | download
void AddJobCommands(CLI::App& app, Action* chosen);

/// job download: for AddJobCommands.
void AddDownloadCommand(CLI::App& jobs, Action* chosen);

/// job resume: for AddJobCommands.
void AddResumeCommand(CLI::App& jobs, Action* chosen);

/// sweep submit | list | show | watch | best | pause | resume | stop | add |
/// delete
void AddSweepCommands(CLI::App& app, Action* chosen);

/// evaluate
void AddEvaluateCommand(CLI::App& app, Action* chosen);

/// export
void AddExportCommand(CLI::App& app, Action* chosen);

/// admin backup | drain | token | certs, of which the last asks no daemon.
void AddAdminCommands(CLI::App& app, Action* chosen, Action* chosen_local);

/// admin token create | list | revoke: for AddAdminCommands.
void AddTokenCommands(CLI::App& admin, Action* chosen);

/// admin certs: for AddAdminCommands.
void AddCertsCommand(CLI::App& admin, Action* chosen);

/// context add | use | list | remove
void AddContextCommands(CLI::App& app, Action* chosen);

/// status
void AddStatusCommand(CLI::App& app, Action* chosen);

/// top
void AddTopCommand(CLI::App& app, Action* chosen);

/// completion
void AddCompletionCommand(CLI::App& app, Action* chosen_local);

/// Prints the candidates of a completion, those that a daemon or a file of this
/// user knows included, as lines of a word, a tab and its meaning. Gives the
/// exit code.
int PrintCompletion(Completion completion, Session& session);

/// doctor, which asks a daemon only if it answers.
void AddDoctorCommand(CLI::App& app, Action* chosen_local);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMANDS_H_
