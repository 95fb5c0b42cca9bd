#ifndef HEARTH_CLIENT_CLI_VIEWS_TERMINAL_H_
#define HEARTH_CLIENT_CLI_VIEWS_TERMINAL_H_

#include <termios.h>

#include <atomic>
#include <ostream>
#include <stop_token>
#include <string>
#include <thread>

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

/// Turns Ctrl-C (SIGINT), and SIGTERM where that is asked for, into a stop
/// request. Make it before any other thread: the signals are blocked in all
/// threads but its own, which may do what a signal handler must not. Programs
/// that are started inherit that. One per process.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// From now on the first Ctrl-C requests a stop on the token; before, and
  /// from the second on, it ends the process as usual, which of the second is
  /// told on standard error. Thread-safe.
  std::stop_token Catch();

  /// The same, of both signals.
  std::stop_token CatchTermination();

 private:
  void Listen();

  std::stop_source source_;
  std::atomic<bool> interrupt_caught_ = false;
  std::atomic<bool> termination_caught_ = false;
  int signals_ = -1;
  int wake_ = -1;
  std::thread listener_;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_TERMINAL_H_
