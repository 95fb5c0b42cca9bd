#include "client/cli/views/terminal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

namespace hearth::cli {

namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kEraseToEndOfLine[] = "\x1b[K";
constexpr char kEraseBelow[] = "\x1b[J";

// State of the terminal before the current Screen, for RestoreTerminal. Not a
// member of Screen: another thread may end the process during ~Screen.
struct Before {
  int keys = -1;
  bool reads_keys = false;
  termios settings = {};
};
Before before;
std::atomic<bool> is_shown = false;

}  // namespace

Screen::Screen(std::ostream& out, int keys) : out_(out), keys_(keys) {
  reads_keys_ = tcgetattr(keys_, &before_) == 0;
  before = {.keys = keys_, .reads_keys = reads_keys_, .settings = before_};
  is_shown = true;
  if (reads_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(keys_, TCSANOW, &raw);
  }
  out_ << kEnter << std::flush;
}

Screen::~Screen() {
  out_ << kLeave << std::flush;
  if (reads_keys_) tcsetattr(keys_, TCSANOW, &before_);
  is_shown = false;
}

void Screen::Draw(const std::string& text) {
  // Overwriting the lines does not flicker, as clearing them would.
  out_ << kHome
       << absl::StrReplaceAll(text,
                              {{"\n", std::string(kEraseToEndOfLine) + "\n"}})
       << kEraseToEndOfLine << kEraseBelow << std::flush;
}

bool Screen::Wait(absl::Duration pause, const std::stop_token& stop) {
  const int wake = eventfd(0, EFD_CLOEXEC);
  const absl::Cleanup close_wake = [wake] { close(wake); };
  const std::stop_callback on_stop(stop, [wake] { eventfd_write(wake, 1); });
  const absl::Time end = absl::Now() + pause;
  while (!stop.stop_requested()) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return true;
    pollfd ready[2] = {{wake, POLLIN, 0},
                       {reads_keys_ ? keys_ : -1, POLLIN, 0}};
    // Rounded up, and within the range of poll.
    const int milliseconds = static_cast<int>(
        absl::ToInt64Milliseconds(std::min(left, absl::Hours(1))) + 1);
    if (poll(ready, 2, milliseconds) <= 0) continue;
    if (ready[1].revents == 0) continue;
    char key = 0;
    // At the end of input the terminal is gone.
    if (read(keys_, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
  }
  return false;
}

void RestoreTerminal() {
  if (!is_shown.exchange(false)) return;
  if (before.reads_keys) tcsetattr(before.keys, TCSANOW, &before.settings);
  // A failure is ignored: nothing can be done about it.
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, kLeave, sizeof(kLeave) - 1);
}

namespace {

// Whether a signal is ignored, as SIGINT is in background jobs of a shell; it
// stays so.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

// Ends the process by the signal's default action, which a shell sees.
[[noreturn]] void DieOf(int signal, bool is_second) {
  RestoreTerminal();
  if (is_second) {
    const std::string text =
        absl::StrCat("hearth: ended at once by a second signal (",
                     sigdescr_np(signal), ")\n");
    // Does not wait for a reader of stderr that takes nothing.
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
