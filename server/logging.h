#ifndef HEARTH_SERVER_LOGGING_H_
#define HEARTH_SERVER_LOGGING_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hearth::server {

/// The forms of the log's lines.
enum class LogFormat {
  /// TIME LEVEL MESSAGE
  kText,
  /// {"time":...,"level":...,"message":...}, and "job" where JobOf tells it.
  kJson,
};

/// Sends spdlog's lines to stderr, from `level` ("trace" ... "off") on. Control
/// characters in messages are escaped, so that a name in a request cannot forge
/// lines or drive a terminal. Call once, before any logging.
void InitializeLogging(const std::string& level,
                       LogFormat format = LogFormat::kText);

/// The id of the job that a message is about, which begins with it, as in
/// "train-7: started"; nullopt for others.
std::optional<std::string> JobOf(absl::string_view message);

/// `text` with control characters and backslashes as escapes ("\n" as "\\n").
std::string EscapeControlCharacters(absl::string_view text);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_LOGGING_H_
