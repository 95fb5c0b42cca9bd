#include "client/cli/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace hearth::cli {
namespace {

// A shell starts background jobs with SIGINT ignored; so it stays.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

// As if nobody had caught it, so that a shell sees a death by SIGINT.
[[noreturn]] void DieOfInterrupt() {
  std::signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  raise(SIGINT);
  _exit(128 + SIGINT);
}

}  // namespace

Interrupts::Interrupts() {
  if (IsIgnored(SIGINT)) return;
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  signals_ = signalfd(-1, &interrupt, SFD_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC);
  listener_ = std::thread([this] { Listen(); });
}

Interrupts::~Interrupts() {
  if (!listener_.joinable()) return;
  eventfd_write(wake_, 1);
  listener_.join();
  close(signals_);
  close(wake_);
}

std::stop_token Interrupts::Catch() {
  caught_ = true;
  return source_.get_token();
}

void Interrupts::Listen() {
  while (true) {
    pollfd ready[2] = {{signals_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (poll(ready, 2, -1) < 0) continue;  // EINTR
    if (ready[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    if (!caught_ || source_.stop_requested()) DieOfInterrupt();
    source_.request_stop();
  }
}

}  // namespace hearth::cli
