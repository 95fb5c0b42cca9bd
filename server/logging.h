#ifndef HEARTH_SERVER_LOGGING_H_
#define HEARTH_SERVER_LOGGING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace hearth::server {

/// Sends spdlog's lines to stderr, from `level` ("trace" ... "off") on. Control
/// characters in messages are escaped, so that a name in a request cannot forge
/// lines or drive a terminal. Call once, before any logging.
void InitializeLogging(const std::string& level);

/// `text` with control characters and backslashes as escapes ("\n" as "\\n").
std::string EscapeControlCharacters(absl::string_view text);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_LOGGING_H_
