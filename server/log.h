#ifndef HEARTH_SERVER_LOG_H_
#define HEARTH_SERVER_LOG_H_

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

/// Lines of the daemon's log. InitializeLogging (daemon_process.h) sets level,
/// format and destination; until then, and in tests, spdlog's defaults hold.
/// spdlog is included by log.cc and daemon_process.cc alone. Thread-safe.

namespace hearth::server {

enum class LogSeverity { kDebug, kInfo, kWarning, kError };

/// Writes `text` as one line.
void Log(LogSeverity severity, absl::string_view text);

/// The functions below write their arguments, joined as by absl::StrCat, as one
/// line.
template <typename... Pieces>
void LogInfo(const Pieces&... pieces) {
  Log(LogSeverity::kInfo, absl::StrCat(pieces...));
}

template <typename... Pieces>
void LogWarning(const Pieces&... pieces) {
  Log(LogSeverity::kWarning, absl::StrCat(pieces...));
}

template <typename... Pieces>
void LogError(const Pieces&... pieces) {
  Log(LogSeverity::kError, absl::StrCat(pieces...));
}

}  // namespace hearth::server

#endif  // HEARTH_SERVER_LOG_H_
