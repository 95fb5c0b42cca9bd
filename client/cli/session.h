#ifndef HEARTH_CLIENT_CLI_SESSION_H_
#define HEARTH_CLIENT_CLI_SESSION_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/hearth_client.h"

namespace hearth::cli {

/// Exit codes of `hearth`.
enum ExitCode {
  kExitDone = 0,
  /// The job failed or was cancelled, or the daemon refused the request.
  kExitFailed = 1,
  /// The command line, or a value in it or in a job file, makes no sense.
  kExitUsage = 2,
  kExitUnreachable = 3,
  /// Ctrl-C while watching a job, which goes on.
  kExitInterrupted = 130,
};

/// The form of standard output: text for people, or one JSON object.
enum class Output { kTable, kJson };

/// The process around a command; tests make their own.
struct Environment {
  std::ostream& out;
  std::ostream& err;
  /// Whether `err` is a terminal that understands escape sequences.
  bool err_is_terminal = false;
  /// Width of that terminal now.
  std::function<int()> columns = [] { return 80; };
  /// Whether `out` is one, and its height now.
  bool out_is_terminal = false;
  std::function<int()> rows = [] { return 24; };
  /// Absolute path that relative paths start from.
  std::string working_directory = "/";
  /// From the first call on, Ctrl-C requests a stop on the token instead of
  /// ending the process.
  std::function<std::stop_token()> catch_interrupts = [] {
    return std::stop_token();
  };
  /// The same for SIGTERM, too.
  std::function<std::stop_token()> catch_termination = [] {
    return std::stop_token();
  };
};

/// The client, streams and choices that a command works with.
struct Session {
  client::Client& client;
  Output output = Output::kTable;
  Environment& environment;
  /// " --server ADDR" and the other flags by which the daemon was chosen, for
  /// commands shown to the user; empty for the default.
  std::string server_flag = "";
  /// The options of `client`, or why there are none: for commands that make a
  /// client of their own, or can do without.
  std::function<absl::StatusOr<client::ClientOptions>()> client_options =
      nullptr;
};

/// A command with its arguments: gives the exit code.
using Action = std::function<absl::StatusOr<int>(Session&)>;

/// Writes `json` on a session's output, indented, ASCII only.
void PrintJson(const nlohmann::ordered_json& json, Session& session);

/// `path` as the daemon needs it: absolute, from the working directory.
std::string AbsolutePath(const std::string& path, const Session& session);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_SESSION_H_
