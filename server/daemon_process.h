#ifndef HEARTH_SERVER_DAEMON_PROCESS_H_
#define HEARTH_SERVER_DAEMON_PROCESS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/daemon.h"

/// Process of a daemon: format and destination of its log, signals, and the
/// service manager.

namespace hearth::server {

/// Formats of the log's lines.
enum class LogFormat {
  /// TIME LEVEL MESSAGE
  kText,
  /// {"time":...,"level":...,"message":...}, and "job" and "trace_id" if
  /// SubjectOf finds them.
  kJson,
};

/// Sends log lines to stderr, from `level` ("trace" ... "off") on. Control
/// characters in messages are escaped, so that a name in a request cannot forge
/// lines or drive a terminal. Call once, before any logging.
void InitializeLogging(const std::string& level,
                       LogFormat format = LogFormat::kText);

/// Writes a log line without waiting for locks or for a blocked reader of the
/// log; the line may be lost. For the last line of a process whose threads may
/// hang. REQUIRES: InitializeLogging.
void LogWithoutWaiting(absl::string_view message);

/// Job that a log message is about.
struct LogSubject {
  /// Id of the job.
  std::string job;
  /// Trace of the call that submitted it; empty = none.
  std::string trace_id = {};
};

/// Job that a message begins with, as in "train-7: started" or "train-7
/// [TRACE]: started"; nullopt for other messages.
std::optional<LogSubject> SubjectOf(absl::string_view message);

/// `text` with control characters and backslashes as escapes ("\n" as "\\n").
std::string EscapeControlCharacters(absl::string_view text);

/// FAILED_PRECONDITION unless `descriptor` is of a pipe or a socket: the end of
/// anything else does not tell that the processes at its other end are gone.
absl::Status CheckEndsWithItsWriters(int descriptor);

/// Takes bytes that a pipe or a socket has, without waiting for any; whether it
/// has ended.
bool HasEnded(int descriptor);

/// Process around a Daemon: command line, log, signals, service manager. Ends
/// the process when a signal, or with --stop-with-input the end of standard
/// input, has stopped the daemon, without destructors of static objects:
/// LibTorch's take 0.1 s. Standard input is read once the daemon serves, and no
/// more once it stops: a byte that was read met a daemon that serves. Exit
/// codes: 0 stopped as asked; 1 could not start, or jobs did not stop in time;
/// 2 usage.
[[noreturn]] void RunDaemonProcess(int argc, const char* const* argv,
                                   ModelSource models);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_DAEMON_PROCESS_H_
