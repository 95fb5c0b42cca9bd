#ifndef HEARTH_CLIENT_CLI_SCREEN_H_
#define HEARTH_CLIENT_CLI_SCREEN_H_

#include <termios.h>

#include <ostream>
#include <stop_token>
#include <string>

#include "absl/time/time.h"

namespace hearth::cli {

/// The terminal's alternate screen: what was there before comes back when this
/// goes, and keys are read as they are pressed, unseen. One at a time in a
/// process. Single-owner.
class Screen {
 public:
  /// `out` is a terminal, and must outlive this; keys come from descriptor
  /// `keys`, of which nothing is asked if it is no terminal.
  Screen(std::ostream& out, int keys);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Shows `text`, lines without an end of their own, in place of what was.
  void Draw(const std::string& text);

  /// Waits for `pause`; false if `stop` was requested, or q pressed, first.
  bool Wait(absl::Duration pause, const std::stop_token& stop);

 private:
  std::ostream& out_;
  const int keys_;
  bool reads_keys_ = false;
  termios before_ = {};
};

/// Does what ~Screen does, on standard output, for the Screen that there is, if
/// any, in a process that is about to end without it. Thread-safe and
/// async-signal-safe.
void RestoreTerminal();

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_SCREEN_H_
