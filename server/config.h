#ifndef HEARTH_SERVER_CONFIG_H_
#define HEARTH_SERVER_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hearth::server {

/// Checks an address to listen on, "HOST:PORT" with the number of a network
/// interface (192.0.2.1, [2001:db8::1]; 0.0.0.0 and [::] = all) or localhost,
/// and a PORT of 0 (any free one) to 65535, and returns it with localhost
/// spelled out. INVALID_ARGUMENT if it is malformed.
absl::StatusOr<std::string> ParseListenAddress(absl::string_view address);

/// Whether only this machine reaches an address that ParseListenAddress has
/// returned: 127.0.0.1 or [::1].
bool IsLoopback(absl::string_view address);

/// INVALID_ARGUMENT, for what is served to this machine alone, unless
/// IsLoopback(address).
absl::Status CheckLoopback(absl::string_view address);

/// `address` with its port replaced by `port`.
std::string WithPort(const std::string& address, int port);

/// The configuration of a daemon. Every option is a flag ("--data-dir") and a
/// key of the configuration file ("data-dir"); flags win.
struct Config {
  /// The data directory. Default $HEARTH_HOME, else ~/.hearth.
  std::string data_dir;
  /// TCP address of the gRPC services, beside the Unix socket in the data
  /// directory; empty = none. Port 0 = any free one. Not on loopback only with
  /// TLS and with roots.
  std::string listen;
  /// Name of the group that may use the Unix socket, too; empty = none.
  std::string socket_group;
  /// PEM files of the TCP address: the daemon's certificate and key, and the
  /// authorities of client certificates, which are then asked for. Empty = no
  /// TLS, and no client certificates.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  /// Connections at a time that the Unix socket, and the TCP address, take: in
  /// all, and of one address or user. 0 = as ConnectionLimitsOf says.
  size_t max_connections = 0;
  size_t max_connections_per_address = 0;
  /// Jobs that have not ended, in all and of one owner, beyond which none are
  /// taken; 1 to kMaxQueuedJobs. Of one owner 0 = half of them.
  int64_t max_queued_jobs = 100'000;
  int64_t max_queued_jobs_per_user = 0;
  static constexpr int64_t kMaxQueuedJobs = 10'000'000;
  /// Address of /metrics, on loopback; empty = none.
  std::string metrics_listen = "127.0.0.1:9600";
  /// Train and prepare jobs that run at a time, 1 to kMaxRunningJobs. More jobs
  /// share processors and memory.
  int max_running_jobs = 1;
  /// Train jobs with equal data that share each pass over it, at most; they
  /// count as one running job. 1 to kMaxRunningJobs; 1 = none share.
  int convoy_members = 16;
  /// Other jobs (imports, exports, explain, verify) that run at a time, beside
  /// those, 1 to kMaxRunningJobs.
  int max_short_jobs = 2;
  /// Whether the plan of the train job that begins next is made while others
  /// train.
  bool prepares_ahead = true;
  static constexpr int kMaxRunningJobs = 64;
  /// A job with which the daemon died so often in a row, without work of it
  /// done in between that lasts, FAILS; 1 to kMaxRetries.
  int retries = 3;
  static constexpr int kMaxRetries = 1'000'000;
  /// How long a job is kept waiting for a disk that is full or does not answer
  /// before it fails.
  absl::Duration wait_limit = absl::Hours(24);
  /// The first pause before a waiting job is tried again. No option: tests make
  /// it short.
  absl::Duration first_wait_pause = absl::Seconds(1);
  /// How long the client of a download or an upload may neither take nor send a
  /// message. No option: tests make it short.
  absl::Duration transfer_patience = absl::Minutes(2);
  /// The SQLite VFS through which the database is reached; empty = SQLite's
  /// default. No option: tests make it fail.
  std::string database_vfs;
  /// Memory that all jobs together may take, in bytes; 0 = nine tenths of the
  /// machine's or the container's memory.
  uint64_t memory_limit_bytes = 0;
  /// Bytes that plans may take on disk; 0 = no limit.
  uint64_t plan_space_bytes = 0;
  /// Folders on disks of their own, over which features can be striped.
  std::vector<std::string> data_disks;
  /// Bytes that the files of uploads may take, of which each caller who is no
  /// operator may take half; 0 = no uploads are taken.
  uint64_t upload_limit_bytes = uint64_t{10} << 30;
  /// An upload for which nothing has come for so long is removed.
  absl::Duration upload_patience = absl::Hours(24);
  /// Folders that imports may read from; none = any that the daemon can read.
  std::vector<std::string> import_roots;
  /// Folders in which exports, generated source folders and backups may be
  /// made; none = any that the daemon can write to.
  std::vector<std::string> export_roots;
  /// Permissions that exports and generated folders lack, as of umask. No
  /// option: it is that of the process at its start.
  unsigned export_mask = 0022;
  /// The least level of the log's lines: "trace", "debug", "info", "warn",
  /// "error" or "off".
  std::string log_level = "info";
  /// How the log's lines are written: "text" or "json".
  std::string log_format = "text";
  /// The file that gets the addresses taken, as JSON, once the daemon is ready;
  /// empty = none.
  std::string address_file;
};

/// Jobs of one owner that may be queued.
int64_t MaxQueuedJobsPerUser(const Config& config);

/// Connections that an address takes.
struct ConnectionLimits {
  size_t connections = 0;
  size_t per_address = 0;
};

/// Those of `config`. By default as many as the process's limit of descriptors
/// (RLIMIT_NOFILE) has room for beside what the daemon itself opens, at most
/// 1,024, and half of them of one address. FAILED_PRECONDITION, naming the
/// limit, for more than there is room for.
absl::StatusOr<ConnectionLimits> ConnectionLimitsOf(const Config& config);

/// The same for a limit of so many descriptors.
absl::StatusOr<ConnectionLimits> ConnectionLimitsOf(const Config& config,
                                                    uint64_t descriptors);

/// A configuration file longer than this is refused before it is parsed.
inline constexpr uint64_t kMaxConfigFileBytes = 64 << 10;

/// The parsed command line.
struct CommandLine {
  Config config;
  /// Set for --help and --version: text to print instead of running.
  std::optional<std::string> text;
};

/// Reads the flags and the configuration file that they may name, and checks
/// that the address is protected as CheckListening asks. INVALID_ARGUMENT
/// naming the flag, or the file, line and key, at fault.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

/// The manual page of hearthd, as roff: its options, as its help has them.
std::string ManPage();

/// OK if who reaches the TCP address must say who they are, or is on this
/// machine: FAILED_PRECONDITION, telling the way to do it, for another address
/// without TLS or without roots, and for TLS that lacks a file.
absl::Status CheckListening(const Config& config);

/// Sets in `config` the options of a configuration file's YAML text. `path` is
/// for messages.
absl::Status ApplyConfigText(absl::string_view text, const std::string& path,
                             Config& config);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CONFIG_H_
