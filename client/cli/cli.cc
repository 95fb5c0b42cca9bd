#include "client/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/contexts.h"
#include "client/server_choice.h"
#include "engine/base/status_macros.h"
#include "engine/base/version.h"

namespace hearth::cli {
namespace {

constexpr char kHowToStart[] =
    "Is the daemon running? Start it with\n"
    "  hearthd --data-dir DIR\n"
    "or, in the source tree, with deploy/quickstart.sh --keep. Without "
    "--server, --context or HEARTH_SERVER, it is looked for on the socket in "
    "its data directory ($HEARTH_HOME, else ~/.hearth), then at "
    "127.0.0.1:7600.\n";

struct GlobalOptions {
  std::string server;
  std::string context;
  client::CredentialFiles files;
  std::string output = "table";
};

void AddGlobalOptions(CLI::App& app, GlobalOptions* options) {
  app.name("hearth");
  app.require_subcommand(1);
  // `hearth train --output json` is the same as `hearth --output json train`.
  app.fallthrough();
  app.set_version_flag("--version", absl::StrCat("hearth ", kVersion));
  app.add_option("--server", options->server,
                 "Address of the daemon, HOST:PORT or unix:PATH; default the "
                 "socket in the default data directory, else 127.0.0.1:7600")
      ->envname("HEARTH_SERVER")
      ->take_last();
  app.add_option("--context", options->context,
                 "Name of a daemon (see hearth context)")
      ->envname("HEARTH_CONTEXT")
      ->take_last();
  app.add_option("--ca", options->files.ca,
                 "PEM file with the authority that vouches for the daemon; "
                 "the connection is then encrypted")
      ->envname("HEARTH_CA")
      ->take_last();
  app.add_option("--cert", options->files.certificate,
                 "PEM file with the client's certificate")
      ->envname("HEARTH_CERT")
      ->take_last();
  app.add_option("--key", options->files.key, "PEM file with its private key")
      ->envname("HEARTH_KEY")
      ->take_last();
  app.add_option("--token-file", options->files.token,
                 "File with a token, of which the first line is read")
      ->envname("HEARTH_TOKEN_FILE")
      ->take_last();
  app.add_option("--output", options->output, "What to print: table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->take_last()
      ->capture_default_str();
}

// Names a mistyped command; the parser says only that a command is missing.
void NameUnknownCommand(const CLI::App& app, Environment& environment) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (rest.empty() || rest[0].empty() || rest[0][0] == '-') return;
  environment.err << "hearth: unknown: " << EscapeControl(rest[0]) << "\n";
}

int ExitCodeOf(const absl::Status& status) {
  if (client::IsUnreachable(status)) return kExitUnreachable;
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

int Report(const absl::Status& status, Environment& environment) {
  environment.err << "hearth: " << EscapeControl(std::string(status.message()))
                  << "\n";
  if (client::IsUnreachable(status)) environment.err << kHowToStart;
  return ExitCodeOf(status);
}

void TellSilence(absl::Duration silent, Environment& environment) {
  // A line of progress may stand there.
  if (environment.err_is_terminal) environment.err << "\r\x1b[K";
  if (silent == absl::ZeroDuration()) {
    environment.err << "the daemon answers again" << std::endl;
  } else {
    environment.err << "the daemon has not answered for "
                    << absl::ToInt64Seconds(silent) << " s; still trying"
                    << std::endl;
  }
}

// The daemon that is meant. A server is given with its files: those of a
// context are never shown to another server.
absl::StatusOr<client::Context> ChooseDaemon(const GlobalOptions& options) {
  if (!options.server.empty() && !options.context.empty()) {
    return absl::InvalidArgumentError(
        "--server (or HEARTH_SERVER) and --context (or HEARTH_CONTEXT) name "
        "two daemons");
  }
  client::Context daemon;
  if (options.server.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const client::Contexts contexts,
                            client::ReadContexts(client::ContextsPath()));
    const std::string& name =
        options.context.empty() ? contexts.current : options.context;
    if (!name.empty()) {
      HEARTH_ASSIGN_OR_RETURN(daemon, client::FindContext(contexts, name));
    } else {
      HEARTH_ASSIGN_OR_RETURN(daemon.server,
                              client::DefaultServer(options.files));
    }
  } else {
    daemon.server = options.server;
  }
  const auto prefer = [](const std::string& given, std::string& file) {
    if (!given.empty()) file = given;
  };
  prefer(options.files.ca, daemon.files.ca);
  prefer(options.files.certificate, daemon.files.certificate);
  prefer(options.files.key, daemon.files.key);
  prefer(options.files.token, daemon.files.token);
  return daemon;
}

// The flags with which another command reaches the same daemon.
std::string FlagsOf(const GlobalOptions& options) {
  std::string flags;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&flags, " ", flag, " ", value);
  };
  add("--server", options.server);
  add("--context", options.context);
  add("--ca", options.files.ca);
  add("--cert", options.files.certificate);
  add("--key", options.files.key);
  add("--token-file", options.files.token);
  return flags;
}

// Where the daemon is and what it is shown.
absl::StatusOr<client::ClientOptions> ToClientOptions(
    const GlobalOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(const client::Context daemon, ChooseDaemon(options));
  client::ClientOptions client_options;
  client_options.server = daemon.server;
  if (const char* trace_parent = std::getenv("TRACEPARENT")) {
    client_options.trace_parent = trace_parent;
  }
  HEARTH_RETURN_IF_ERROR(client::LoadCredentials(daemon.files, client_options));
  return client_options;
}

int Perform(const Action& action, const GlobalOptions& options,
            client::ClientOptions client_options, Environment& environment) {
  client_options.on_silence = [&environment](absl::Duration silent) {
    TellSilence(silent, environment);
  };
  const std::unique_ptr<client::Client> client =
      client::NewClient(client_options);
  Session session = {
      .client = *client,
      .output = options.output == "json" ? Output::kJson : Output::kTable,
      .environment = environment,
      .server_flag = FlagsOf(options),
      .client_options = [&options] { return ToClientOptions(options); }};
  const absl::StatusOr<int> exit_code = action(session);
  if (!exit_code.ok()) return Report(exit_code.status(), environment);
  if (!environment.out.flush()) {
    environment.err << "hearth: cannot write to standard output\n";
    return kExitFailed;
  }
  return *exit_code;
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments,
           Environment& environment) {
  CLI::App app(
      "Trains graph neural networks on graphs that do not fit in "
      "memory, through the daemon hearthd");
  GlobalOptions options;
  Action action;
  // One that asks no daemon.
  Action local_action;
  AddGlobalOptions(app, &options);
  AddDatasetCommands(app, &action);
  AddTrainCommands(app, &action);
  AddRunCommand(app, &local_action);
  AddPlanCommands(app, &action);
  AddJobCommands(app, &action);
  AddSweepCommands(app, &action);
  AddEvaluateCommand(app, &action);
  AddExportCommand(app, &action);
  AddAdminCommands(app, &action, &local_action);
  AddContextCommands(app, &local_action);
  AddStatusCommand(app, &action);
  AddDoctorCommand(app, &local_action);
  // CLI11 reports by exceptions; they end here.
  try {
    // It takes them from the last to the first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    NameUnknownCommand(app, environment);
    const int code = app.exit(error, environment.out, environment.err);
    return code == 0 ? kExitDone : kExitUsage;
  }
  if (local_action != nullptr) {
    return Perform(local_action, options, client::ClientOptions(), environment);
  }
  const absl::StatusOr<client::ClientOptions> client_options =
      ToClientOptions(options);
  if (!client_options.ok()) return Report(client_options.status(), environment);
  return Perform(action, options, *client_options, environment);
}

}  // namespace hearth::cli
