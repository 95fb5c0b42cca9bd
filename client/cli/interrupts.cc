#include "client/cli/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/screen.h"

namespace hearth::cli {
namespace {

// A shell starts background jobs with SIGINT ignored; so it stays.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

// As if nobody had caught it, so that a shell sees a death by the signal.
[[noreturn]] void DieOf(int signal, bool is_second) {
  RestoreTerminal();
  if (is_second) {
    const std::string text =
        absl::StrCat("hearth: ended at once by a second signal (",
                     sigdescr_np(signal), ")\n");
    // A reader of stderr that takes nothing does not hold the end up.
    pollfd ready = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&ready, 1, 0) > 0) {
      [[maybe_unused]] const ssize_t written =
          write(STDERR_FILENO, text.data(), text.size());
    }
  }
  std::signal(signal, SIG_DFL);
  sigset_t deadly;
  sigemptyset(&deadly);
  sigaddset(&deadly, signal);
  pthread_sigmask(SIG_UNBLOCK, &deadly, nullptr);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace

Interrupts::Interrupts() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM}) {
    if (!IsIgnored(signal)) sigaddset(&taken, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  signals_ = signalfd(-1, &taken, SFD_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC);
  listener_ = std::thread([this] { Listen(); });
}

Interrupts::~Interrupts() {
  eventfd_write(wake_, 1);
  listener_.join();
  close(signals_);
  close(wake_);
}

std::stop_token Interrupts::Catch() {
  interrupt_caught_ = true;
  return source_.get_token();
}

std::stop_token Interrupts::CatchTermination() {
  termination_caught_ = true;
  return Catch();
}

void Interrupts::Listen() {
  while (true) {
    pollfd ready[2] = {{signals_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (poll(ready, 2, -1) < 0) continue;  // EINTR
    if (ready[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    const bool caught =
        signal == SIGTERM ? termination_caught_ : interrupt_caught_;
    const bool is_second = source_.stop_requested();
    if (!caught || is_second) DieOf(signal, is_second);
    source_.request_stop();
  }
}

}  // namespace hearth::cli
