#include "client/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"

extern char** environ;

namespace hearth::client {
namespace {

constexpr size_t kLogTailBytes = 1000;
// Exit code of a child that could not execute the program.
constexpr int kCannotExecute = 127;

absl::Status ErrnoError(const std::string& what) {
  return absl::ErrnoToStatus(errno, what);
}

std::string SocketOf(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/hearth.sock");
}

// Socket on which the daemon reports that it is ready, as to a service manager.
struct Notifications {
  int descriptor = -1;
  // Value of NOTIFY_SOCKET.
  std::string name;
};

absl::StatusOr<Notifications> OpenNotifications() {
  Notifications opened;
  opened.descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (opened.descriptor < 0) return ErrnoError("socket");
  // Messages carry their sender, since anyone may send to the name.
  const int on = 1;
  setsockopt(opened.descriptor, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  std::random_device random;
  opened.name = absl::StrCat("@hearth-run-", getpid(), "-", random());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // Abstract names begin with a zero byte.
  std::memcpy(address.sun_path + 1, opened.name.data() + 1,
              opened.name.size() - 1);
  if (bind(opened.descriptor, reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                  opened.name.size())) != 0) {
    const absl::Status status = ErrnoError("bind");
    close(opened.descriptor);
    return status;
  }
  return opened;
}

// Takes a message; whether it is from `sender` and says that it is ready.
bool SaysReady(int notifications, pid_t sender) {
  char text[4096];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec part = {text, sizeof(text)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(notifications, &message, MSG_DONTWAIT);
  if (size < 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS) return false;
  ucred credentials = {};
  std::memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(text, static_cast<size_t>(size)), '\n');
  return credentials.pid == sender &&
         std::find(lines.begin(), lines.end(), "READY=1") != lines.end();
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Executes the daemon in the child, by system calls alone: other threads may
// have held locks at the fork.
[[noreturn]] void BecomeDaemon(pid_t parent, int log, int nothing, char** argv,
                               char** env) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before prctl.
  if (getppid() != parent) _exit(kCannotExecute);
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execve(argv[0], argv, env);
  _exit(kCannotExecute);
}

// The end of a text file; empty if it cannot be read.
std::string TailOf(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() > kLogTailBytes) {
    text.erase(0, text.size() - kLogTailBytes);
    text.erase(0, text.find('\n') + 1);
  }
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

}  // namespace

PrivateDaemon::PrivateDaemon(std::string data_dir, pid_t process,
                             int process_descriptor)
    : data_dir_(std::move(data_dir)),
      address_(absl::StrCat("unix:", SocketOf(data_dir_))),
      process_(process),
      process_descriptor_(process_descriptor) {
  waiter_ = std::jthread([this](const std::stop_token& stop) {
    const int wake = eventfd(0, EFD_CLOEXEC);
    const std::stop_callback on_stop(stop, [wake] { eventfd_write(wake, 1); });
    pollfd ready[2] = {{process_descriptor_, POLLIN, 0}, {wake, POLLIN, 0}};
    while (poll(ready, 2, -1) < 0) {
    }
    if (ready[0].revents != 0) ended_.request_stop();
    close(wake);
  });
}

PrivateDaemon::~PrivateDaemon() {
  Stop().IgnoreError();
  waiter_.request_stop();
  waiter_.join();
  close(process_descriptor_);
}

absl::StatusOr<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(
    const PrivateDaemonOptions& options, std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(MakePrivateFolder(options.data_dir));
  if (SocketOf(options.data_dir).size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.data_dir, ": too long a path for the socket in it; at most ",
        sizeof(sockaddr_un::sun_path) - sizeof("/hearth.sock"), " bytes"));
  }
  if (access(options.program.c_str(), X_OK) != 0) {
    return ErrnoError(options.program);
  }
  const std::string log_path = absl::StrCat(options.data_dir, "/", kLogName);
  const int log =
      open(log_path.c_str(),
           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (log < 0) return ErrnoError(log_path);
  const absl::Cleanup close_log = [log] { close(log); };
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const absl::Cleanup close_nothing = [nothing] { close(nothing); };
  HEARTH_ASSIGN_OR_RETURN(const Notifications notifications,
                          OpenNotifications());
  const absl::Cleanup close_notifications = [&] {
    close(notifications.descriptor);
  };

  std::vector<std::string> arguments = {options.program, "--data-dir",
                                        options.data_dir};
  arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
  std::vector<std::string> variables = {
      absl::StrCat("NOTIFY_SOCKET=", notifications.name)};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "NOTIFY_SOCKET=")) {
      variables.emplace_back(*variable);
    }
  }
  std::vector<char*> argv = Pointers(arguments);
  std::vector<char*> env = Pointers(variables);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) return ErrnoError("fork");
  if (process == 0) {
    BecomeDaemon(parent, log, nothing, argv.data(), env.data());
  }
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) {
    const absl::Status status = ErrnoError("pidfd_open");
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    return status;
  }
  std::unique_ptr<PrivateDaemon> daemon(
      new PrivateDaemon(options.data_dir, process, descriptor));
  HEARTH_RETURN_IF_ERROR(daemon->AwaitReady(notifications.descriptor, stop));
  return daemon;
}

absl::Status PrivateDaemon::AwaitReady(int notifications,
                                       const std::stop_token& stop) {
  const int wake = eventfd(0, EFD_CLOEXEC);
  const absl::Cleanup close_wake = [wake] { close(wake); };
  const std::stop_callback on_stop(stop, [wake] { eventfd_write(wake, 1); });
  while (!stop.stop_requested()) {
    pollfd ready[3] = {{notifications, POLLIN, 0},
                       {process_descriptor_, POLLIN, 0},
                       {wake, POLLIN, 0}};
    if (poll(ready, 3, -1) < 0) continue;
    if (ready[0].revents != 0 && SaysReady(notifications, process_)) {
      return absl::OkStatus();
    }
    if (ready[1].revents != 0) {
      const absl::Status ended = Reap();
      return ended.ok() ? absl::InternalError("hearthd ended as it started")
                        : ended;
    }
  }
  return absl::CancelledError("stopped while hearthd started");
}

absl::Status PrivateDaemon::Reap() {
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  const std::string how =
      WIFSIGNALED(status)
          ? absl::StrCat("was killed by signal ", WTERMSIG(status))
          : absl::StrCat("ended with ", WEXITSTATUS(status));
  const std::string log = absl::StrCat(data_dir_, "/", kLogName);
  return absl::InternalError(absl::StrCat("hearthd ", how, "; its log, ", log,
                                          ", ends with: ", TailOf(log)));
}

absl::Status PrivateDaemon::Stop() {
  if (reaped_) return absl::OkStatus();
  kill(process_, SIGTERM);
  pollfd ended = {process_descriptor_, POLLIN, 0};
  int ready = 0;
  while ((ready = poll(
              &ended, 1,
              static_cast<int>(absl::ToInt64Milliseconds(kPatience)))) < 0) {
  }
  if (ready == 0) kill(process_, SIGKILL);
  return Reap();
}

absl::Status MakePrivateFolder(const std::string& path) {
  std::error_code error;
  const auto parent = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(parent, error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(path);
  }
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoError(path);
  // In a folder such as /tmp another user may have made it first.
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is not a folder of this user"));
  }
  // hearthd accepts a folder that others may read only while it is empty, and
  // the log is written before hearthd looks.
  if (std::filesystem::is_empty(path, error) &&
      chmod(path.c_str(), 0700) != 0) {
    return ErrnoError(path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> folders;
  if (!error) folders.push_back(self.parent_path().string());
  if (const char* path = std::getenv("PATH")) {
    for (const absl::string_view folder : absl::StrSplit(path, ':')) {
      folders.emplace_back(folder.empty() ? "." : folder);
    }
  }
  for (const std::string& folder : folders) {
    std::string program = absl::StrCat(folder, "/", name);
    if (access(program.c_str(), X_OK) == 0 &&
        !std::filesystem::is_directory(program, error)) {
      return program;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      name, " is neither in the folder of this program nor in $PATH"));
}

}  // namespace hearth::client
