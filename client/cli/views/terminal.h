#ifndef HEARTH_CLIENT_CLI_VIEWS_TERMINAL_H_
#define HEARTH_CLIENT_CLI_VIEWS_TERMINAL_H_

#include <termios.h>

#include <atomic>
#include <ostream>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/time/time.h"

/// The terminal: its second screen, and the signals of Ctrl-C and SIGTERM,
/// after which the first screen is shown again.

namespace hearth::cli {

/// The terminal's alternate screen. The destructor brings the normal screen
/// back. Meanwhile keys are read when they are pressed, without echo. One
/// object at a time in a process. Single-owner.
class Screen {
 public:
  /// `out` is a terminal and must outlive this object. Keys are read from the
  /// descriptor `keys` if it is a terminal.
  Screen(std::ostream& out, int keys);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Replaces the contents of the screen by `text`, whose last line has no end.
  void Draw(const std::string& text);

  /// Waits for `pause`; false if `stop` is requested or q is pressed before.
  bool Wait(absl::Duration pause, const std::stop_token& stop);

 private:
  std::ostream& out_;
  const int keys_;
  bool reads_keys_ = false;
  termios before_ = {};
};

/// Does the work of ~Screen, on standard output, if there is a Screen: for a
/// process that ends without destructors. Thread-safe and async-signal-safe.
void RestoreTerminal();

/// Turns Ctrl-C (SIGINT) and SIGTERM into stop requests, on a thread of its
/// own, since signal handlers may do little. Make it before any other thread:
/// it blocks the signals in all other threads, and in programs that they start.
/// One per process.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// From now on, the first Ctrl-C requests a stop on the returned token. The
  /// second one ends the process, with a message on standard error; so does any
  /// before this call, without a message. Thread-safe.
  std::stop_token Catch();

  /// As Catch(), for Ctrl-C and SIGTERM.
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
