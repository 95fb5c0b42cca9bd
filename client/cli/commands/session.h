#ifndef HEARTH_CLIENT_CLI_COMMANDS_SESSION_H_
#define HEARTH_CLIENT_CLI_COMMANDS_SESSION_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/views/progress.h"
#include "client/hearth_client.h"
#include "hearth/v1/jobs.pb.h"

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

/// How a command submits its job.
struct Submission {
  /// Only the job's id is printed; nobody waits for its end.
  bool detach = false;
  /// See hearth.v1.SubmitJobRequest.
  int priority = 0;
};

/// Adds the flags of a submission to a command that submits a job.
/// `submission` must live as long as the command.
void AddSubmissionFlags(CLI::App& command, Submission& submission);

/// Shows how far bytes have come, as the progress of a job is shown: a live
/// line on a terminal, else a line for each phase. Single-owner.
class TransferProgress {
 public:
  explicit TransferProgress(Session& session);

  /// `done` bytes of `total` of `phase` ("downloading") have come.
  void Show(const std::string& phase, uint64_t done, uint64_t total);

  /// Takes the live line away. Call before anything else is written.
  void Clear() { display_->Clear(); }

 private:
  const std::unique_ptr<ProgressDisplay> display_;
  std::string phase_;
  absl::Time shown_ = absl::InfinitePast();
};

/// Submits a job and watches it to its end (detached: only says its id).
/// Prints the job or its outcome; gives the exit code.
absl::StatusOr<int> RunJob(Session& session, const v1::JobSpec& spec,
                           const Submission& submission);

/// The same for a job that is there already, from its newest event on.
absl::StatusOr<int> FollowOrDetach(Session& session, const v1::Job& job,
                                   bool detach);

/// Shows a job's events from `from_sequence` on until it has ended, and gives
/// it then; nullopt if `stop` ended that.
absl::StatusOr<std::optional<v1::Job>> WatchToEnd(Session& session,
                                                  const v1::Job& job,
                                                  uint64_t from_sequence,
                                                  std::stop_token stop);

/// Prints a job that has ended, or its outcome; gives the exit code.
int PrintEnded(Session& session, const v1::Job& job);

/// Watches a job from its event `from_sequence` on, likewise.
absl::StatusOr<int> FollowJob(Session& session, const v1::Job& job,
                              uint64_t from_sequence = 1);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMANDS_SESSION_H_
