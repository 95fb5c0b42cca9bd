#ifndef HEARTH_CLIENT_CLI_INTERRUPTS_H_
#define HEARTH_CLIENT_CLI_INTERRUPTS_H_

#include <atomic>
#include <stop_token>
#include <thread>

namespace hearth::cli {

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

#endif  // HEARTH_CLIENT_CLI_INTERRUPTS_H_
