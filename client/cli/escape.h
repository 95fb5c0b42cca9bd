#ifndef HEARTH_CLIENT_CLI_ESCAPE_H_
#define HEARTH_CLIENT_CLI_ESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace hearth::cli {

/// `text` fit for a terminal: control characters (C0, DEL and C1) and bytes
/// that are not UTF-8 become "\n", "\t" or "\x1b", so that a name or message
/// from elsewhere cannot move the cursor or fake output.
std::string EscapeControl(absl::string_view text);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_ESCAPE_H_
