#ifndef HEARTH_SERVER_DAEMON_PROCESS_H_
#define HEARTH_SERVER_DAEMON_PROCESS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/daemon.h"

namespace hearth::server {

/// The forms of the log's lines.
enum class LogFormat {
  /// TIME LEVEL MESSAGE
  kText,
  /// {"time":...,"level":...,"message":...}, and "job" and "trace_id" where
  /// SubjectOf tells them.
  kJson,
};

/// Sends spdlog's lines to stderr, from `level` ("trace" ... "off") on. Control
/// characters in messages are escaped, so that a name in a request cannot forge
/// lines or drive a terminal. Call once, before any logging.
void InitializeLogging(const std::string& level,
                       LogFormat format = LogFormat::kText);

/// Writes a line of the log for which no lock is waited for, nor a reader of
/// the log that takes nothing: then the line is lost. For the last one of a
/// process whose threads may hang. REQUIRES: InitializeLogging.
void LogWithoutWaiting(absl::string_view message);

/// Subject of a message.
struct LogSubject {
  /// Id of the job.
  std::string job;
  /// Trace of the call that submitted it; empty = none.
  std::string trace_id = {};
};

/// The job that a message is about, which begins with it, as in "train-7:
/// started" or "train-7 [TRACE]: started"; nullopt for others.
std::optional<LogSubject> SubjectOf(absl::string_view message);

/// `text` with control characters and backslashes as escapes ("\n" as "\\n").
std::string EscapeControlCharacters(absl::string_view text);

/// The process around a Daemon: command line, log, signals, service manager.
/// Ends the process when a signal has stopped the daemon, without destructors
/// of static objects: LibTorch's take 0.1 s. Exit codes: 0 stopped as asked;
/// 1 could not start, or jobs did not stop in time; 2 usage.
[[noreturn]] void RunDaemonProcess(int argc, const char* const* argv,
                                   ModelSource models);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_DAEMON_PROCESS_H_
