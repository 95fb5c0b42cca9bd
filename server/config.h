#ifndef HEARTH_SERVER_CONFIG_H_
#define HEARTH_SERVER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

/// How a daemon runs. Every option is a flag ("--data-dir") and a key of the
/// configuration file ("data-dir"); flags win.
struct Config {
  /// Where everything is kept. Default $HEARTH_HOME, else ~/.hearth.
  std::string data_dir;
  /// Address of the gRPC services, on loopback. Port 0 = any free one.
  std::string listen = "127.0.0.1:7600";
  /// Address of /metrics, on loopback; empty = none.
  std::string metrics_listen = "127.0.0.1:9600";
  /// Jobs that run at a time, 1 to kMaxRunningJobs. More jobs share processors
  /// and memory.
  int max_running_jobs = 1;
  static constexpr int kMaxRunningJobs = 64;
  /// What jobs may take together, in bytes; 0 = nine tenths of the machine's or
  /// the container's memory.
  uint64_t memory_limit_bytes = 0;
  /// What plans may take on disk, in bytes; 0 = no limit.
  uint64_t plan_space_bytes = 0;
  /// Folders that imports may read from; none = any that the daemon can read.
  std::vector<std::string> import_roots;
  /// "trace", "debug", "info", "warn", "error" or "off".
  std::string log_level = "info";
  /// Where to write the addresses taken, as JSON, once ready; empty = nowhere.
  std::string address_file;
};

/// A configuration file longer than this is refused before it is parsed.
inline constexpr uint64_t kMaxConfigFileBytes = 64 << 10;

/// What the command line asks for.
struct CommandLine {
  Config config;
  /// Set for --help and --version: text to print instead of running.
  std::optional<std::string> text;
};

/// Reads the flags and the configuration file that they may name.
/// INVALID_ARGUMENT naming the flag, or the file, line and key, at fault.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

/// Sets in `config` what the YAML text of a configuration file says. `path` is
/// for messages.
absl::Status ApplyConfigText(absl::string_view text, const std::string& path,
                             Config& config);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CONFIG_H_
