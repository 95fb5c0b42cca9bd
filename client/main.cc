#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "client/cli/cli.h"
#include "client/cli/views/terminal.h"

namespace {

bool IsTerminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && term != nullptr &&
         std::string(term) != "dumb";
}

int TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

int TerminalRows() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
    return size.ws_row;
  }
  return 24;
}

}  // namespace

int main(int argc, char** argv) {
  // gRPC's log (retried connections, say) is not for users; statuses tell what
  // went wrong.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  hearth::cli::Interrupts interrupts;
  std::error_code no_directory;
  hearth::cli::Environment environment = {
      .out = std::cout,
      .err = std::cerr,
      .err_is_terminal = IsTerminal(STDERR_FILENO),
      .columns = TerminalColumns,
      .out_is_terminal = IsTerminal(STDOUT_FILENO),
      .rows = TerminalRows,
      .working_directory = std::filesystem::current_path(no_directory).string(),
      .catch_interrupts = [&interrupts] { return interrupts.Catch(); },
      .catch_termination =
          [&interrupts] { return interrupts.CatchTermination(); }};
  return hearth::cli::RunCli(
      std::vector<std::string>(argv + std::min(argc, 1), argv + argc),
      environment);
}
