#include "server/daemon_process.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/version.h"
#include "server/config.h"
#include "server/logging.h"

namespace hearth::server {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
// How long jobs may take to reach a checkpoint when the daemon stops. Service
// managers commonly kill after 90 s.
constexpr absl::Duration kJobPatience = absl::Seconds(60);
// Signals that come so soon after the first belong to the same stop.
constexpr absl::Duration kSameStop = absl::Seconds(2);

// Signals that ask the daemon to stop.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Each connection is a descriptor, and gRPC stops accepting for good when they
// run out.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Blocks until one of `signals` comes. Meanwhile the service manager, where it
// has a watchdog, hears twice in its interval that the daemon does not hang.
int WaitForSignal(const sigset_t& signals, Daemon& daemon) {
  uint64_t interval_us = 0;
  int signal_number = 0;
  if (sd_watchdog_enabled(0, &interval_us) <= 0) {
    sigwait(&signals, &signal_number);
    return signal_number;
  }
  const timespec pause = absl::ToTimespec(absl::Microseconds(interval_us) / 2);
  while ((signal_number = sigtimedwait(&signals, nullptr, &pause)) <= 0) {
    daemon.CheckAlive();
    sd_notify(0, "WATCHDOG=1");
  }
  return signal_number;
}

// From now on a further signal ends the process at once, which is safe: it is
// like a crash. The log says so, whatever the other threads hang in. Those of
// the first kSameStop do not: a service manager tells the whole control group,
// `hearth run` its daemon, and both mean one stop.
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
    // It was blocked, and is that of the process.
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
  // Blocked in all threads to come, and taken by sigwait below.
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  // Files that the daemon writes are its user's alone, but for exports.
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
  const int signal_number = WaitForSignal(signals, **daemon);
  spdlog::info("stopping: {}", sigdescr_np(signal_number));
  sd_notify(0, "STOPPING=1");
  DieOfFurtherSignals(signals);
  const absl::Status status = (*daemon)->Stop(kJobPatience);
  if (!status.ok()) {
    spdlog::error("jobs go on from their last checkpoint at the next start: {}",
                  status.ToString());
    // The daemon's destructor would wait for them.
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
