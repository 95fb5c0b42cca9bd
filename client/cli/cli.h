#ifndef HEARTH_CLIENT_CLI_CLI_H_
#define HEARTH_CLIENT_CLI_CLI_H_

#include <string>
#include <vector>

#include "client/cli/commands/session.h"

namespace hearth::cli {

/// Runs the command line `arguments`, without the program's name; returns the
/// exit code.
int RunCli(const std::vector<std::string>& arguments, Environment& environment);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_CLI_H_
