#include "client/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/completion.h"
#include "client/cli/views/text.h"
#include "client/server_choice.h"
#include "client/tls.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "proto/options/command_line.h"

namespace hearth::cli {
namespace {

constexpr char kHowToStart[] =
    "Is the daemon running? Start it with\n"
    "  hearthd --data-dir DIR\n"
    "or, in the source tree, with deploy/quickstart.sh --keep. Without "
    "--server, --context or HEARTH_SERVER, hearth tries the socket in the "
    "default data directory ($HEARTH_HOME, else ~/.hearth), then at "
    "127.0.0.1:7600.\n";

int ExitCodeOf(const absl::Status& status) {
  if (client::IsUnreachable(status)) return kExitUnreachable;
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

int Report(const absl::Status& status, Environment& environment) {
  environment.err << "hearth: " << EscapeControl(std::string(status.message()))
                  << "\n";
  return ExitCodeOf(status);
}

// Reports that the daemon cannot be reached, with why TLS was refused, or how
// to start the daemon.
int ReportUnreachable(const absl::Status& status,
                      const client::ClientOptions& options,
                      Environment& environment) {
  const std::string refusal = client::WhyTlsIsRefused(options);
  const int code = Report(status, environment);
  if (refusal.empty()) {
    environment.err << kHowToStart;
  } else {
    environment.err << "TLS was refused: " << EscapeControl(refusal) << "\n";
  }
  return code;
}

void TellSilence(absl::Duration silent, Environment& environment) {
  // Erases the live line of progress, if there is one.
  if (environment.err_is_terminal) environment.err << "\r\x1b[K";
  if (silent == absl::ZeroDuration()) {
    environment.err << "the daemon answers again" << std::endl;
  } else {
    environment.err << "the daemon has not answered for "
                    << absl::ToInt64Seconds(silent) << " s; still trying"
                    << std::endl;
  }
}

// The daemon that the options mean. With --server, no context applies: a
// context's files are never shown to another server.
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

// Flags with which another command reaches the same daemon.
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

// Address of the daemon that the options mean, and the credentials for it.
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
  if (client::IsUnreachable(exit_code.status())) {
    return ReportUnreachable(exit_code.status(), client_options, environment);
  }
  if (!exit_code.ok()) return Report(exit_code.status(), environment);
  if (!environment.out.flush()) {
    environment.err << "hearth: cannot write to standard output\n";
    return kExitFailed;
  }
  return *exit_code;
}

// Prints the candidates for the last of `words`, which may follow "--"; live
// names are asked of the daemon that the other words name.
int CompleteWords(std::vector<std::string> words, Environment& environment) {
  if (words.front() == "--") words.erase(words.begin());
  if (words.empty()) words.emplace_back();
  CommandTree tree;
  const Completion completion = Complete(tree.app, words);
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const auto take = [&](const char* flag, std::string& value) {
      if (words[i] == flag) value = words[i + 1];
    };
    take("--server", tree.options.server);
    take("--context", tree.options.context);
    take("--ca", tree.options.files.ca);
    take("--cert", tree.options.files.certificate);
    take("--key", tree.options.files.key);
    take("--token-file", tree.options.files.token);
  }
  return Perform(
      [&](Session& session) { return PrintCompletion(completion, session); },
      tree.options, client::ClientOptions(), environment);
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments,
           Environment& environment) {
  // Words that are still typed are no command line: they are not parsed.
  if (arguments.size() > 2 && arguments[0] == "completion" &&
      arguments[1] == "words") {
    return CompleteWords({arguments.begin() + 2, arguments.end()}, environment);
  }
  CommandTree tree;
  // CLI11 reports by exceptions, which end here.
  try {
    // CLI11 takes the arguments in reverse order.
    tree.app.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    // Help and version are exceptions, too.
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      tree.app.exit(error, environment.out, environment.err);
      return kExitDone;
    }
    for (const absl::string_view fault : absl::StrSplit(
             options::ParseFault(tree.app, error, arguments), '\n')) {
      environment.err << "hearth: " << EscapeControl(std::string(fault))
                      << "\n";
    }
    environment.err << "Run with --help for more information.\n";
    return kExitUsage;
  }
  if (tree.local_action != nullptr) {
    return Perform(tree.local_action, tree.options, client::ClientOptions(),
                   environment);
  }
  const absl::StatusOr<client::ClientOptions> client_options =
      ToClientOptions(tree.options);
  if (!client_options.ok()) return Report(client_options.status(), environment);
  return Perform(tree.action, tree.options, *client_options, environment);
}

}  // namespace hearth::cli
