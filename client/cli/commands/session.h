#ifndef HEARTH_CLIENT_CLI_COMMANDS_SESSION_H_
#define HEARTH_CLIENT_CLI_COMMANDS_SESSION_H_

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

/// The session in which every command works (client, streams, form of
/// output), and jobs that are submitted, followed and reported.

namespace CLI {
class App;
}  // namespace CLI

namespace hearth::cli {

/// Exit codes of `hearth`.
enum ExitCode {
  kExitDone = 0,
  /// The job failed or was cancelled, or the daemon refused the request.
  kExitFailed = 1,
  /// The command line, or a value on it or in a job file, makes no sense.
  kExitUsage = 2,
  kExitUnreachable = 3,
  /// Ctrl-C while watching a job; the job goes on.
  kExitInterrupted = 130,
};

/// The form of standard output: text for people, or one JSON object.
enum class Output { kTable, kJson };

/// Streams, terminal and signals of the process; tests make their own.
struct Environment {
  std::ostream& out;
  std::ostream& err;
  /// Whether `err` is a terminal that understands escape sequences.
  bool err_is_terminal = false;
  /// Current width of the terminal `err`.
  std::function<int()> columns = [] { return 80; };
  /// Whether `out` is a terminal, and its current height.
  bool out_is_terminal = false;
  std::function<int()> rows = [] { return 24; };
  /// Absolute path at which relative paths start.
  std::string working_directory = "/";
  /// From the first call on, Ctrl-C requests a stop on the returned token
  /// instead of ending the process.
  std::function<std::stop_token()> catch_interrupts = [] {
    return std::stop_token();
  };
  /// As catch_interrupts, for Ctrl-C and SIGTERM.
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
  /// The options of `client`, or why there are none, for commands that make
  /// their own client or need none.
  std::function<absl::StatusOr<client::ClientOptions>()> client_options =
      nullptr;
};

/// A command with its arguments; returns the exit code.
using Action = std::function<absl::StatusOr<int>(Session&)>;

/// Writes `json` to the session's output, indented, ASCII only.
void PrintJson(const nlohmann::ordered_json& json, Session& session);

/// Reports that the thing called `name` was deleted; returns the exit code.
int PrintDeleted(const std::string& name, Session& session);

/// `status` with `message` in place of its own; payloads stay.
absl::Status WithMessage(const absl::Status& status,
                         const std::string& message);

/// `path` as an absolute path, which the daemon needs; relative paths start at
/// the working directory.
std::string AbsolutePath(const std::string& path, const Session& session);

/// Flags of a command that submits a job.
struct Submission {
  /// Prints the job's id instead of waiting for the job's end.
  bool detach = false;
  /// See hearth.v1.SubmitJobRequest.
  int priority = 0;
};

/// Adds the flags of `submission` to `command`. `submission` must live as long
/// as the command.
void AddSubmissionFlags(CLI::App& command, Submission& submission);

/// Shows the progress of an upload or download as the progress of a job: a live
/// line on a terminal, else a line for each phase. Single-owner.
class TransferProgress {
 public:
  explicit TransferProgress(Session& session);

  /// Shows that `done` bytes of `total` are done in `phase` ("downloading").
  void Show(const std::string& phase, uint64_t done, uint64_t total);

  /// Erases the live line. To be called before anything else is written.
  void Clear() { display_->Clear(); }

 private:
  const std::unique_ptr<ProgressDisplay> display_;
  std::string phase_;
  absl::Time shown_ = absl::InfinitePast();
};

/// Submits a job and watches it to its end, or prints its id if detached.
/// Prints the job or its outcome; returns the exit code.
absl::StatusOr<int> RunJob(Session& session, const v1::JobSpec& spec,
                           const Submission& submission);

/// As RunJob, for a submitted job, from its newest event on.
absl::StatusOr<int> FollowOrDetach(Session& session, const v1::Job& job,
                                   bool detach);

/// Shows a job's events from `from_sequence` on until the job has ended, and
/// returns the job; nullopt if `stop` ended the watch.
absl::StatusOr<std::optional<v1::Job>> WatchToEnd(Session& session,
                                                  const v1::Job& job,
                                                  uint64_t from_sequence,
                                                  std::stop_token stop);

/// Prints a job that has ended, or its outcome; returns the exit code.
int PrintEnded(Session& session, const v1::Job& job);

/// Watches a job from its event `from_sequence` on, until its end or Ctrl-C;
/// prints it and returns the exit code.
absl::StatusOr<int> FollowJob(Session& session, const v1::Job& job,
                              uint64_t from_sequence = 1);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_COMMANDS_SESSION_H_
