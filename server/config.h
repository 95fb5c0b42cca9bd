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
#include "server/cluster/cluster_times.h"

/// Options of hearthd from flags and a configuration file, and the checks of
/// its addresses and limits.

namespace hearth::server {

/// Checks an address to listen on, "HOST:PORT" with the IP address of a network
/// interface (192.0.2.1, [2001:db8::1]; 0.0.0.0 and [::] = all) or localhost,
/// and a PORT of 0 (any free one) to 65535. Returns it with localhost replaced
/// by 127.0.0.1. INVALID_ARGUMENT if it is malformed.
absl::StatusOr<std::string> ParseListenAddress(absl::string_view address);

/// Whether only this machine reaches an address returned by ParseListenAddress:
/// 127.0.0.1 or [::1].
bool IsLoopback(absl::string_view address);

/// INVALID_ARGUMENT unless IsLoopback(address); for ports that serve this
/// machine only.
absl::Status CheckLoopback(absl::string_view address);

/// `address` with its port replaced by `port`.
std::string WithPort(const std::string& address, int port);

/// Configuration of a daemon. Every option is a flag ("--data-dir") and a key
/// of the configuration file ("data-dir"); flags win.
struct Config {
  /// The data directory. Default $HEARTH_HOME, else ~/.hearth.
  std::string data_dir;
  /// TCP address of the gRPC services, in addition to the Unix socket in the
  /// data directory; empty = none. Port 0 = any free one. Other addresses than
  /// loopback need TLS and roots.
  std::string listen;
  /// Group that may use the Unix socket, too; empty = none.
  std::string socket_group;
  /// PEM files of the TCP address: the daemon's certificate and key, and the
  /// authorities of client certificates, which are asked for if set. Empty = no
  /// TLS, and no client certificates.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  /// The file of the daemon's cluster (server/cluster/cluster_file.h); empty =
  /// none.
  std::string cluster;
  /// How long its members wait for each other. No option: tests make it short.
  ClusterTimes cluster_times;
  /// Connections at a time on the Unix socket and on the TCP address each: in
  /// all, and of one client address or user. 0 = see ConnectionLimitsOf.
  size_t max_connections = 0;
  size_t max_connections_per_address = 0;
  /// Unended jobs, in all and of one owner, beyond which no job is taken; 1 to
  /// kMaxQueuedJobs. Of one owner, 0 = half of all.
  int64_t max_queued_jobs = 100'000;
  int64_t max_queued_jobs_per_user = 0;
  static constexpr int64_t kMaxQueuedJobs = 10'000'000;
  /// Address of /metrics, on loopback; empty = none.
  std::string metrics_listen = "127.0.0.1:9600";
  /// Train and prepare jobs that run at a time, 1 to kMaxRunningJobs. Running
  /// jobs share processors and memory.
  int max_running_jobs = 1;
  /// Train jobs with equal data that share each pass over it and count as one
  /// running job, 1 to kMaxRunningJobs; 1 = no sharing.
  int convoy_members = 16;
  /// Other jobs (imports, exports, explain, verify) that run at a time, in
  /// addition to max_running_jobs, 1 to kMaxRunningJobs.
  int max_short_jobs = 2;
  /// Whether the plan of the next train job is made while other jobs train.
  bool prepares_ahead = true;
  static constexpr int kMaxRunningJobs = 64;
  /// Times in a row that the daemon may die while a job runs, without durable
  /// work of the job in between, before the job fails; 1 to kMaxRetries.
  int retries = 3;
  static constexpr int kMaxRetries = 1'000'000;
  /// Time that a job waits for a disk that is full or does not answer before it
  /// fails.
  absl::Duration wait_limit = absl::Hours(24);
  /// Time for which a feed job may be without a client before it is cancelled.
  absl::Duration feed_patience = absl::Minutes(10);
  /// Pause before a waiting job is tried again for the first time. No option:
  /// tests make it short.
  absl::Duration first_wait_pause = absl::Seconds(1);
  /// Time that the client of a download or an upload may neither take nor send
  /// a message. No option: tests make it short.
  absl::Duration transfer_patience = absl::Minutes(2);
  /// SQLite VFS through which the database is reached; empty = SQLite's
  /// default. No option: tests make it fail.
  std::string database_vfs;
  /// Memory that all jobs together may take, in bytes; 0 = nine tenths of the
  /// memory of the machine or the container.
  uint64_t memory_limit_bytes = 0;
  /// Bytes that plans may take on disk; 0 = no limit.
  uint64_t plan_space_bytes = 0;
  /// Folders on disks of their own, over which features can be striped.
  std::vector<std::string> data_disks;
  /// Bytes that the files of uploads may take; a caller who is no operator may
  /// take half of them. 0 = no uploads.
  uint64_t upload_limit_bytes = uint64_t{10} << 30;
  /// Time without progress after which an upload is removed.
  absl::Duration upload_patience = absl::Hours(24);
  /// Folders that imports may read from; none = any that the daemon can read.
  std::vector<std::string> import_roots;
  /// Folders in which exports, generated source folders and backups may be
  /// made; none = any that the daemon can write to.
  std::vector<std::string> export_roots;
  /// Permissions that exports and generated folders do not get, as umask. No
  /// option: the umask of the process at its start.
  unsigned export_mask = 0022;
  /// Least severity that is logged: "trace", "debug", "info", "warn", "error"
  /// or "off".
  std::string log_level = "info";
  /// Format of the log's lines: "text" or "json".
  std::string log_format = "text";
  /// File to which the addresses in use are written as JSON once the daemon is
  /// ready; empty = none.
  std::string address_file;
  /// Whether the end of standard input, a pipe or a socket, stops the daemon.
  bool stops_with_input = false;
};

/// Unended jobs that one owner may have.
int64_t MaxQueuedJobsPerUser(const Config& config);

/// Connections that an address takes: in all, and of one client address or
/// user.
struct ConnectionLimits {
  size_t connections = 0;
  size_t per_address = 0;
};

/// Limits of `config`. By default as many connections as the process's limit of
/// descriptors (RLIMIT_NOFILE) allows after the daemon's own, at most 1,024,
/// and half of them of one client address. FAILED_PRECONDITION, naming the
/// limit, if `config` has more than fit.
absl::StatusOr<ConnectionLimits> ConnectionLimitsOf(const Config& config);

/// Limits of `config` for `descriptors` descriptors.
absl::StatusOr<ConnectionLimits> ConnectionLimitsOf(const Config& config,
                                                    uint64_t descriptors);

/// Configuration files longer than this are refused before they are parsed.
inline constexpr uint64_t kMaxConfigFileBytes = 64 << 10;

/// Parsed command line.
struct CommandLine {
  Config config;
  /// Text to print instead of running, for --help and --version.
  std::optional<std::string> text;
};

/// Reads the flags, and the configuration file that they may name, and calls
/// CheckListening. INVALID_ARGUMENT, naming the flag, or the file, line and
/// key, at fault.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

/// Manual page of hearthd as roff, with the options as in --help.
std::string ManPage();

/// OK if callers at the TCP address must identify themselves or are on this
/// machine. FAILED_PRECONDITION, telling what to do, for another address than
/// loopback without TLS or without roots, and for incomplete TLS options.
absl::Status CheckListening(const Config& config);

/// Sets the options of a configuration file's YAML text in `config`. `path` is
/// for messages.
absl::Status ApplyConfigText(absl::string_view text, const std::string& path,
                             Config& config);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CONFIG_H_
