#include "server/daemon_process.h"

#include <poll.h>
#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/version.h"
#include "server/config.h"

namespace hearth::server {

namespace {

// Escaped message: the flag "%*" of the pattern.
class EscapedMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = EscapeControlCharacters(
        absl::string_view(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

// Formats a line as JSON, whose strings have escapes of their own.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& out) override {
    const absl::string_view text(message.payload.data(),
                                 message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json line = {
        {"time",
         absl::FormatTime(absl::RFC3339_full, absl::FromChrono(message.time),
                          absl::UTCTimeZone())},
        {"level", std::string(level.data(), level.size())}};
    if (const auto subject = SubjectOf(text)) {
      line["job"] = subject->job;
      if (!subject->trace_id.empty()) line["trace_id"] = subject->trace_id;
    }
    line["message"] = std::string(text);
    const std::string json =
        line.dump(-1, ' ', /*ensure_ascii=*/false,
                  nlohmann::json::error_handler_t::replace);
    out.append(json.data(), json.data() + json.size());
    out.push_back('\n');
  }

  std::unique_ptr<formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

std::unique_ptr<spdlog::formatter> TextFormatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').set_pattern(
      "%Y-%m-%dT%H:%M:%S.%e%z %l %*");
  return formatter;
}

std::unique_ptr<spdlog::formatter> FormatterOf(LogFormat format) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>();
  return TextFormatter();
}

std::atomic<LogFormat> log_format = LogFormat::kText;

bool IsControl(char c) {
  return absl::ascii_iscntrl(static_cast<unsigned char>(c));
}

}  // namespace

std::string EscapeControlCharacters(absl::string_view text) {
  if (std::none_of(text.begin(), text.end(), IsControl)) {
    return std::string(text);
  }
  return absl::Utf8SafeCEscape(text);
}

std::optional<LogSubject> SubjectOf(absl::string_view message) {
  absl::string_view id = message.substr(0, message.find(": "));
  if (id.size() == message.size()) return std::nullopt;
  absl::string_view trace;
  if (const size_t at = id.find(" ["); at != absl::string_view::npos) {
    trace = id.substr(at + 2);
    if (!absl::ConsumeSuffix(&trace, "]")) return std::nullopt;
    id = id.substr(0, at);
  }
  const size_t hyphen = id.find('-');
  if (hyphen == absl::string_view::npos) return std::nullopt;
  const auto is_kind = [](char c) {
    return absl::ascii_islower(c) || c == '_';
  };
  const auto is_digit = [](char c) { return absl::ascii_isdigit(c); };
  const absl::string_view kind = id.substr(0, hyphen);
  const absl::string_view number = id.substr(hyphen + 1);
  if (kind.empty() || number.empty() ||
      !std::all_of(kind.begin(), kind.end(), is_kind) ||
      !std::all_of(number.begin(), number.end(), is_digit)) {
    return std::nullopt;
  }
  return LogSubject{std::string(id), std::string(trace)};
}

void InitializeLogging(const std::string& level, LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>(
      "hearthd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log_format = format;
  logger->set_formatter(FormatterOf(format));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void LogWithoutWaiting(absl::string_view message) {
  if (!spdlog::should_log(spdlog::level::err)) return;
  spdlog::memory_buf_t line;
  FormatterOf(log_format)
      ->format(spdlog::details::log_msg(
                   "hearthd", spdlog::level::err,
                   spdlog::string_view_t(message.data(), message.size())),
               line);
  // A pipe that is ready takes a whole line.
  pollfd ready = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

absl::Status CheckEndsWithItsWriters(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) == 0 &&
      (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "--stop-with-input: standard input is neither a pipe nor a socket, so "
      "its end would not tell that the processes which need the daemon are "
      "gone");
}

bool HasEnded(int descriptor) {
  pollfd ready = {descriptor, POLLIN, 0};
  char taken[4096];
  if (poll(&ready, 1, 0) <= 0) return false;
  const ssize_t size = read(descriptor, taken, sizeof(taken));
  return size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN);
}

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
// Time that jobs may take to reach a checkpoint when the daemon stops. Service
// managers commonly kill after 90 s.
constexpr absl::Duration kJobPatience = absl::Seconds(60);
// Signals within this time after the first belong to the same stop.
constexpr absl::Duration kSameStop = absl::Seconds(2);

// Signals that ask the daemon to stop.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Each connection needs descriptors, and gRPC stops accepting for good when
// they run out.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Blocks until `signals`, a signalfd, has a signal or `input` has ended (-1 =
// none); returns which, for people. Meanwhile tells the service manager's
// watchdog, twice per interval, that the daemon does not hang.
std::string AwaitStop(int signals, int input, Daemon& daemon) {
  uint64_t interval_us = 0;
  const bool is_watched = sd_watchdog_enabled(0, &interval_us) > 0;
  const int pause_ms =
      is_watched ? static_cast<int>(std::max<uint64_t>(interval_us / 2000, 1))
                 : -1;
  while (true) {
    pollfd ready[2] = {{signals, POLLIN, 0}, {input, POLLIN, 0}};
    poll(ready, 2, pause_ms);
    if (is_watched) {
      daemon.CheckAlive();
      sd_notify(0, "WATCHDOG=1");
    }
    signalfd_siginfo signal{};
    if (ready[0].revents != 0 &&
        read(signals, &signal, sizeof(signal)) == sizeof(signal)) {
      return sigdescr_np(static_cast<int>(signal.ssi_signo));
    }
    if (ready[1].revents != 0 && HasEnded(input)) {
      return "standard input has ended";
    }
  }
}

// Makes a further signal end the process at once, which is safe like a crash,
// and is logged even if other threads hang. Signals within kSameStop do not
// count: a service manager signals the whole control group, `hearth run` its
// daemon, and both mean one stop.
void DieOfFurtherSignals(const sigset_t& signals) {
  std::thread([signals] {
    absl::SleepFor(kSameStop);
    const timespec at_once = {};
    while (sigtimedwait(&signals, nullptr, &at_once) > 0) {
    }
    int signal_number = 0;
    sigwait(&signals, &signal_number);
    LogWithoutWaiting(absl::StrCat(
        "ended at once by a second signal (", sigdescr_np(signal_number),
        "): jobs go on from their last checkpoint at the next start"));
    // The signal was blocked, and is directed at the process.
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }).detach();
}

int Fail(const absl::Status& status, int exit_code) {
  std::fprintf(stderr, "hearthd: %s\n",
               EscapeControlCharacters(status.message()).c_str());
  return exit_code;
}

[[noreturn]] void EndProcess(int exit_code) {
  spdlog::shutdown();
  std::fflush(stdout);
  std::_Exit(exit_code);
}

int Serve(Config config, ModelSource models) {
  if (config.stops_with_input) {
    const absl::Status status = CheckEndsWithItsWriters(STDIN_FILENO);
    if (!status.ok()) return Fail(status, kExitFailure);
  }
  // Blocked in all threads to come, and received by AwaitStop.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int received = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (received < 0) {
    return Fail(absl::ErrnoToStatus(errno, "signalfd"), kExitFailure);
  }
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  // Files of the daemon are for its user alone, except exports.
  config.export_mask = umask(0077);
  absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      Daemon::Start(config, std::move(models));
  if (!daemon.ok()) return Fail(daemon.status(), kExitFailure);
  const std::string& metrics = (*daemon)->metrics_address();
  const std::string& socket = (*daemon)->socket_address();
  spdlog::info("hearthd {} ready: grpc {}{}, metrics {}, data {}", kVersion,
               (*daemon)->grpc_address(),
               socket.empty() || socket == (*daemon)->grpc_address()
                   ? ""
                   : " and " + socket,
               metrics.empty() ? "off" : "http://" + metrics + "/metrics",
               config.data_dir);
  sd_notify(0, "READY=1");
  const std::string reason = AwaitStop(
      received, config.stops_with_input ? STDIN_FILENO : -1, **daemon);
  spdlog::info("stopping: {}", reason);
  sd_notify(0, "STOPPING=1");
  DieOfFurtherSignals(signals);
  const absl::Status status = (*daemon)->Stop(kJobPatience);
  if (!status.ok()) {
    spdlog::error("jobs go on from their last checkpoint at the next start: {}",
                  status.ToString());
    // The daemon's destructor would wait for the jobs.
    EndProcess(kExitFailure);
  }
  spdlog::info("stopped");
  return 0;
}

int Run(int argc, const char* const* argv, ModelSource models) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(line.status(), kExitUsage);
  if (line->text.has_value()) {
    std::fputs(line->text->c_str(), stdout);
    return 0;
  }
  InitializeLogging(line->config.log_level, line->config.log_format == "json"
                                                ? LogFormat::kJson
                                                : LogFormat::kText);
  return Serve(line->config, std::move(models));
}

}  // namespace

void RunDaemonProcess(int argc, const char* const* argv, ModelSource models) {
  EndProcess(Run(argc, argv, std::move(models)));
}

}  // namespace hearth::server
