#include "client/cli/screen.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

namespace hearth::cli {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kEraseToEndOfLine[] = "\x1b[K";
constexpr char kEraseBelow[] = "\x1b[J";

// State of the terminal before the Screen that there is, for RestoreTerminal.
// Not a part of it: another thread may end the process while it goes.
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
  // Nothing flickers: each line is written over the one before.
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
    // Rounded up, and no longer than poll can tell.
    const int milliseconds = static_cast<int>(
        absl::ToInt64Milliseconds(std::min(left, absl::Hours(1))) + 1);
    if (poll(ready, 2, milliseconds) <= 0) continue;
    if (ready[1].revents == 0) continue;
    char key = 0;
    // The end of input is that of the terminal.
    if (read(keys_, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
  }
  return false;
}

void RestoreTerminal() {
  if (!is_shown.exchange(false)) return;
  if (before.reads_keys) tcsetattr(before.keys, TCSANOW, &before.settings);
  // Where it fails there is nothing to be done.
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, kLeave, sizeof(kLeave) - 1);
}

}  // namespace hearth::cli
