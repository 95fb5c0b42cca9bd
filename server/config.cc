#include "server/config.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "proto/options/command_line.h"

namespace hearth::server {

namespace {

absl::Status Malformed(absl::string_view address) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address,
                   "\" is not an address to listen on: it must be HOST:PORT "
                   "with the number of an interface, such as 127.0.0.1:7600"));
}

// Whether `host` is an IP address, IPv6 in brackets.
bool IsNumber(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return true;
  in6_addr v6{};
  return absl::StartsWith(host, "[") && absl::EndsWith(host, "]") &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1;
}

}  // namespace

absl::StatusOr<std::string> ParseListenAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return Malformed(address);
  std::string host(address.substr(0, colon));
  const absl::string_view digits = address.substr(colon + 1);
  int port = 0;
  if (digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(digits, &port) || port > 65535) {
    return Malformed(address);
  }
  if (host == "localhost") host = "127.0.0.1";
  if (!IsNumber(host)) return Malformed(address);
  return absl::StrCat(host, ":", port);
}

bool IsLoopback(absl::string_view address) {
  return absl::StartsWith(address, "127.0.0.1:") ||
         absl::StartsWith(address, "[::1]:");
}

absl::Status CheckLoopback(absl::string_view address) {
  if (IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "refusing to listen on \"", address,
      "\": this port has neither encryption nor authentication, so only "
      "loopback addresses (127.0.0.1, [::1], localhost) are allowed; from "
      "another machine use a tunnel, such as ssh -L 9600:127.0.0.1:9600"));
}

std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

// One table of options serves flags and file: both give lists of strings by
// option name, which the option's `set` checks and stores.

namespace {

using Values = std::vector<std::string>;

struct Option {
  const char* name;
  const char* help;
  bool repeatable;
  absl::Status (*set)(const Values& values, Config& config);
};

absl::Status SetDataDir(const Values& values, Config& config) {
  if (values[0].empty()) {
    return absl::InvalidArgumentError("must not be empty");
  }
  config.data_dir = values[0];
  return absl::OkStatus();
}

absl::Status SetListen(const Values& values, Config& config) {
  config.listen.clear();
  if (values[0].empty()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(config.listen, ParseListenAddress(values[0]));
  return absl::OkStatus();
}

absl::Status SetSocketGroup(const Values& values, Config& config) {
  config.socket_group = values[0];
  return absl::OkStatus();
}

absl::Status SetTlsCertificate(const Values& values, Config& config) {
  config.tls_certificate = values[0];
  return absl::OkStatus();
}

absl::Status SetTlsKey(const Values& values, Config& config) {
  config.tls_key = values[0];
  return absl::OkStatus();
}

absl::Status SetTlsClientCa(const Values& values, Config& config) {
  config.tls_client_ca = values[0];
  return absl::OkStatus();
}

absl::Status SetCluster(const Values& values, Config& config) {
  config.cluster = values[0];
  return absl::OkStatus();
}

absl::Status SetMetricsListen(const Values& values, Config& config) {
  config.metrics_listen.clear();
  if (values[0].empty()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(config.metrics_listen, ParseListenAddress(values[0]));
  return CheckLoopback(config.metrics_listen);
}

constexpr int64_t kLeastConnections = 4;
constexpr int64_t kMostConnections = 1'000'000;
// Connections by default, if descriptors allow.
constexpr uint64_t kDefaultConnections = 1024;
// Descriptors per connection: the client's socket, and both ends of the bridge
// to gRPC; twice, since there are two addresses.
constexpr uint64_t kDescriptorsPerConnection = 2 * 3;
// Descriptors kept for everything else (files, rings, the metrics port), at
// most half of all.
constexpr uint64_t kOwnDescriptors = 1024;

absl::StatusOr<int> ParseNumberOfJobs(const std::string& value) {
  int jobs = 0;
  if (!absl::SimpleAtoi(value, &jobs) || jobs < 1 ||
      jobs > Config::kMaxRunningJobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a number from 1 to ", Config::kMaxRunningJobs,
                     ", not \"", value, "\""));
  }
  return jobs;
}

absl::StatusOr<int64_t> ParseNumber(const std::string& value, int64_t least,
                                    int64_t most) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < least || number > most) {
    return absl::InvalidArgumentError(absl::StrCat("must be a number from ",
                                                   least, " to ", most,
                                                   ", not \"", value, "\""));
  }
  return number;
}

absl::Status SetMaxConnections(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(
      const int64_t number,
      ParseNumber(values[0], kLeastConnections, kMostConnections));
  config.max_connections = static_cast<size_t>(number);
  return absl::OkStatus();
}

absl::Status SetMaxConnectionsPerAddress(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(
      const int64_t number,
      ParseNumber(values[0], kLeastConnections, kMostConnections));
  config.max_connections_per_address = static_cast<size_t>(number);
  return absl::OkStatus();
}

absl::Status SetMaxQueuedJobs(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.max_queued_jobs,
                          ParseNumber(values[0], 1, Config::kMaxQueuedJobs));
  return absl::OkStatus();
}

absl::Status SetMaxQueuedJobsPerUser(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.max_queued_jobs_per_user,
                          ParseNumber(values[0], 1, Config::kMaxQueuedJobs));
  return absl::OkStatus();
}

absl::Status SetMaxRunningJobs(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.max_running_jobs,
                          ParseNumberOfJobs(values[0]));
  return absl::OkStatus();
}

absl::Status SetConvoyMembers(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.convoy_members, ParseNumberOfJobs(values[0]));
  return absl::OkStatus();
}

absl::Status SetMaxShortJobs(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.max_short_jobs, ParseNumberOfJobs(values[0]));
  return absl::OkStatus();
}

absl::StatusOr<bool> ParseSwitch(const std::string& value) {
  if (value != "on" && value != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("must be on or off, not \"", value, "\""));
  }
  return value == "on";
}

absl::Status SetPrepareAhead(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.prepares_ahead, ParseSwitch(values[0]));
  return absl::OkStatus();
}

absl::Status SetStopWithInput(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.stops_with_input, ParseSwitch(values[0]));
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> ParseTime(const std::string& text) {
  absl::Duration time;
  if (!absl::ParseDuration(text, &time) || time < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be a time, as \"30m\" or \"24h\", not \"", text, "\""));
  }
  return time;
}

absl::Status SetWaitLimit(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.wait_limit, ParseTime(values[0]));
  return absl::OkStatus();
}

absl::Status SetFeedPatience(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(config.feed_patience, ParseTime(values[0]));
  return absl::OkStatus();
}

absl::Status SetRetries(const Values& values, Config& config) {
  int retries = 0;
  if (!absl::SimpleAtoi(values[0], &retries) || retries < 1 ||
      retries > Config::kMaxRetries) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a number from 1 to ", Config::kMaxRetries,
                     ", not \"", values[0], "\""));
  }
  config.retries = retries;
  return absl::OkStatus();
}

absl::Status SetMemoryLimit(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t bytes, ParseByteSize(values[0]));
  if (bytes == 0) return absl::InvalidArgumentError("must be above 0");
  config.memory_limit_bytes = static_cast<uint64_t>(bytes);
  return absl::OkStatus();
}

absl::Status SetPlanSpace(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t bytes, ParseByteSize(values[0]));
  if (bytes == 0) return absl::InvalidArgumentError("must be above 0");
  config.plan_space_bytes = static_cast<uint64_t>(bytes);
  return absl::OkStatus();
}

absl::Status SetUploadLimit(const Values& values, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t bytes, ParseByteSize(values[0]));
  config.upload_limit_bytes = static_cast<uint64_t>(bytes);
  return absl::OkStatus();
}

absl::Status SetUploadPatience(const Values& values, Config& config) {
  absl::Duration patience;
  if (!absl::ParseDuration(values[0], &patience) ||
      patience <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a time above 0, as \"30m\" or \"24h\", not \"",
                     values[0], "\""));
  }
  config.upload_patience = patience;
  return absl::OkStatus();
}

absl::Status CheckRoots(const Values& roots) {
  for (const std::string& root : roots) {
    if (root.empty() || root[0] != '/') {
      return absl::InvalidArgumentError(
          absl::StrCat("must be an absolute path, not \"", root, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status SetDataDisks(const Values& values, Config& config) {
  config.data_disks = values;
  return CheckRoots(values);
}

absl::Status SetImportRoots(const Values& values, Config& config) {
  config.import_roots = values;
  return CheckRoots(values);
}

absl::Status SetExportRoots(const Values& values, Config& config) {
  config.export_roots = values;
  return CheckRoots(values);
}

absl::Status SetLogLevel(const Values& values, Config& config) {
  static constexpr const char* kLevels[] = {"trace", "debug", "info",
                                            "warn",  "error", "off"};
  for (const char* level : kLevels) {
    if (values[0] == level) {
      config.log_level = level;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("must be one of ",
                                                 absl::StrJoin(kLevels, ", "),
                                                 ", not \"", values[0], "\""));
}

absl::Status SetLogFormat(const Values& values, Config& config) {
  if (values[0] != "text" && values[0] != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("must be text or json, not \"", values[0], "\""));
  }
  config.log_format = values[0];
  return absl::OkStatus();
}

absl::Status SetAddressFile(const Values& values, Config& config) {
  config.address_file = values[0];
  return absl::OkStatus();
}

constexpr Option kOptions[] = {
    {"data-dir",
     "data directory: jobs, datasets, plans, models; default $HEARTH_HOME, "
     "else ~/.hearth",
     false, SetDataDir},
    {"listen",
     "HOST:PORT of the gRPC services, in addition to the Unix socket "
     "hearth.sock in the data directory; port 0 = any free port; addresses "
     "other than loopback need --tls-cert; default none",
     false, SetListen},
    {"socket-group",
     "group whose members may use the Unix socket, with the role user; default "
     "none",
     false, SetSocketGroup},
    {"tls-cert",
     "PEM file with the certificate chain of --listen, read again when it "
     "changes; default no TLS",
     false, SetTlsCertificate},
    {"tls-key", "PEM file with the private key of --tls-cert", false,
     SetTlsKey},
    {"tls-client-ca",
     "PEM file with the authorities of client certificates; every client of "
     "--listen must then have one; default none: clients show tokens",
     false, SetTlsClientCa},
    {"cluster",
     "YAML file that names the daemons which train together, with the address "
     "and the certificates by which they reach each other; default none",
     false, SetCluster},
    {"max-connections",
     "maximum connections at a time, on the Unix socket and on --listen each; "
     "default: as many as the limit of open files allows, at most 1024",
     false, SetMaxConnections},
    {"max-connections-per-address",
     "maximum connections of one address, or of one user of the Unix socket; "
     "default half of --max-connections",
     false, SetMaxConnectionsPerAddress},
    {"max-queued-jobs",
     "maximum jobs that have not ended; further submissions are refused; "
     "default 100000",
     false, SetMaxQueuedJobs},
    {"max-queued-jobs-per-user",
     "maximum jobs of one owner that have not ended; default half of "
     "--max-queued-jobs",
     false, SetMaxQueuedJobsPerUser},
    {"metrics-listen",
     "HOST:PORT of the web page and /metrics, on loopback; default "
     "127.0.0.1:9600; empty = none",
     false, SetMetricsListen},
    {"max-running-jobs",
     "maximum train and prepare jobs that run at a time; default 1", false,
     SetMaxRunningJobs},
    {"convoy-members",
     "maximum train jobs on equal data that share each pass over it and count "
     "as one running job; 1 = no sharing; default 16",
     false, SetConvoyMembers},
    {"max-short-jobs",
     "maximum other jobs (import, generate, export, verify, explain) that run "
     "at a time; default 2",
     false, SetMaxShortJobs},
    {"prepare-ahead",
     "whether the plan of the next train job is prepared while other jobs "
     "train: on or off; default on",
     false, SetPrepareAhead},
    {"wait-limit",
     "time that a job waits for a disk that is full or does not answer before "
     "it fails, such as \"30m\"; default 24h",
     false, SetWaitLimit},
    {"feed-patience",
     "time for which a feed job may be without a client before it is "
     "cancelled, such as \"1h\"; default 10m",
     false, SetFeedPatience},
    {"retries",
     "times in a row that the daemon may die while a job runs before the job "
     "fails; default 3",
     false, SetRetries},
    {"memory-limit",
     "memory for all jobs together, such as \"8GiB\"; default nine tenths of "
     "the memory of the machine or the container",
     false, SetMemoryLimit},
    {"plan-space",
     "disk space for all plans together, such as \"100GiB\"; unused plans are "
     "deleted, least recently used first; default no limit",
     false, SetPlanSpace},
    {"data-disk",
     "folder on a disk of its own, over which jobs with --striped spread their "
     "features; repeatable, useful from two on; a change of their order or "
     "number rewrites the stripes; default none",
     true, SetDataDisks},
    {"upload-limit",
     "disk space for all uploads together, such as \"10GiB\"; a caller who is "
     "no operator may take half of it; 0 = no uploads; default 10GiB",
     false, SetUploadLimit},
    {"upload-patience",
     "time after which an upload that receives nothing is deleted, such as "
     "\"30m\"; default 24h",
     false, SetUploadPatience},
    {"import-root",
     "folder that imports may read from; repeatable; default any folder", true,
     SetImportRoots},
    {"export-root",
     "folder in which exports, generated folders and backups may be written; "
     "repeatable; default any folder",
     true, SetExportRoots},
    {"log-level",
     "least severity that is logged: trace, debug, info, warn, error or off; "
     "default info",
     false, SetLogLevel},
    {"log-format",
     "format of the log: text, or json = one object a line, with the id of the "
     "job; default text",
     false, SetLogFormat},
    {"address-file",
     "file to which the addresses in use are written as JSON once the daemon "
     "is ready",
     false, SetAddressFile},
    {"stop-with-input",
     "whether the end of standard input stops the daemon, as SIGTERM does: on "
     "or off; on needs a pipe or a socket, whose end tells that no process "
     "needs the daemon any more; default off",
     false, SetStopWithInput},
};

const Option* FindOption(const std::string& name) {
  for (const Option& option : kOptions) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

std::string DefaultDataDir() {
  if (const char* home = std::getenv("HEARTH_HOME"); home && *home) {
    return home;
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home && *home ? home : "", "/.hearth");
}

absl::StatusOr<Values> ScalarsOf(const YAML::Node& node, const Option& option) {
  Values values;
  if (node.IsScalar()) {
    values.push_back(node.Scalar());
  } else if (node.IsNull()) {
    values.emplace_back();
  } else if (node.IsSequence() && option.repeatable) {
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) {
        return absl::InvalidArgumentError("must be a list of plain values");
      }
      values.push_back(item.Scalar());
    }
  } else {
    return absl::InvalidArgumentError(option.repeatable
                                          ? "must be a value or a list"
                                          : "must be a single value");
  }
  return values;
}

absl::Status ApplyEntry(const YAML::Node& key, const YAML::Node& value,
                        Config& config) {
  const Option* option = key.IsScalar() ? FindOption(key.Scalar()) : nullptr;
  if (option == nullptr) {
    std::vector<std::string> names;
    for (const Option& known : kOptions) names.push_back(known.name);
    const std::string word = key.IsScalar() ? key.Scalar() : "?";
    std::string rest = options::DidYouMean(word, names);
    if (rest.empty()) {
      rest = absl::StrCat("; the keys are ", absl::StrJoin(names, ", "));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("unknown key \"", word, "\"", rest));
  }
  absl::StatusOr<Values> values = ScalarsOf(value, *option);
  const absl::Status status =
      values.ok() ? option->set(*values, config) : values.status();
  return Annotate(status, option->name);
}

absl::Status ApplyDocument(const YAML::Node& document, const std::string& path,
                           Config& config) {
  if (document.IsNull()) return absl::OkStatus();
  if (!document.IsMap()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": must be a map from option names to values"));
  }
  std::map<std::string, int> line_of;
  for (const auto& entry : document) {
    const int line = entry.first.Mark().line + 1;
    absl::Status status = ApplyEntry(entry.first, entry.second, config);
    if (status.ok() && !line_of.emplace(entry.first.Scalar(), line).second) {
      status = absl::InvalidArgumentError(
          absl::StrCat(entry.first.Scalar(), ": given before in line ",
                       line_of[entry.first.Scalar()]));
    }
    HEARTH_RETURN_IF_ERROR(Annotate(status, absl::StrCat(path, ":", line)));
  }
  return absl::OkStatus();
}

// Reads a file of up to kMaxConfigFileBytes into `config`.
absl::Status ApplyConfigFile(const std::string& path, Config& config) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(io::FileSystem::Posix(), path, kMaxConfigFileBytes));
  return ApplyConfigText(text, path, config);
}

// Values of a command line.
struct Flags {
  std::string config_file;
  bool version = false;
  std::map<std::string, Values> values;
};

// `flags` must live as long as `app`.
void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--config", flags.config_file,
                 "YAML file with the same options");
  app.add_flag("--version", flags.version, "print the version and leave");
  for (const Option& option : kOptions) {
    CLI::Option* flag = app.add_option(absl::StrCat("--", option.name),
                                       flags.values[option.name], option.help);
    flag->allow_extra_args(false)->expected(
        1, option.repeatable ? CLI::detail::expected_max_vector_size : 1);
  }
}

std::string VersionText() { return absl::StrCat("hearthd ", kVersion, "\n"); }

}  // namespace

int64_t MaxQueuedJobsPerUser(const Config& config) {
  if (config.max_queued_jobs_per_user > 0) {
    return config.max_queued_jobs_per_user;
  }
  return std::max<int64_t>(config.max_queued_jobs / 2, 1);
}

absl::StatusOr<ConnectionLimits> ConnectionLimitsOf(const Config& config) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = kOwnDescriptors;
  return ConnectionLimitsOf(config, limit.rlim_cur);
}

absl::StatusOr<ConnectionLimits> ConnectionLimitsOf(const Config& config,
                                                    uint64_t descriptors) {
  const uint64_t own = std::min(kOwnDescriptors, descriptors / 2);
  const uint64_t room = std::max<uint64_t>(
      (descriptors - own) / kDescriptorsPerConnection, kLeastConnections);
  if (config.max_connections > room) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--max-connections ", config.max_connections,
        ": the limit of open files, ", descriptors, ", has room for ", room,
        "; raise it (ulimit -n, or LimitNOFILE of systemd)"));
  }
  ConnectionLimits limits;
  limits.connections = config.max_connections > 0
                           ? config.max_connections
                           : std::min(room, kDefaultConnections);
  limits.per_address =
      config.max_connections_per_address > 0
          ? std::min(config.max_connections_per_address, limits.connections)
          : std::max<uint64_t>(limits.connections / 2, 1);
  return limits;
}

absl::Status CheckListening(const Config& config) {
  if (config.tls_certificate.empty() != config.tls_key.empty()) {
    return absl::FailedPreconditionError(
        "--tls-cert and --tls-key go together: one of them is missing");
  }
  const bool has_tls = !config.tls_certificate.empty();
  if (!has_tls && !config.tls_client_ca.empty()) {
    return absl::FailedPreconditionError(
        "--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (has_tls && config.listen.empty()) {
    return absl::FailedPreconditionError(
        "--tls-cert is for the address of --listen, which is missing");
  }
  if (config.listen.empty() || IsLoopback(config.listen)) {
    return absl::OkStatus();
  }
  if (!has_tls) {
    return absl::FailedPreconditionError(absl::StrCat(
        "refusing to listen on \"", config.listen,
        "\", which other machines reach, without TLS: make certificates with "
        "`hearth admin certs`, and give --tls-cert and --tls-key (callers then "
        "need tokens), or --tls-client-ca, too (they need certificates); or "
        "listen on loopback (127.0.0.1, [::1], localhost) and use a tunnel, "
        "such as ssh -L 7600:127.0.0.1:7600"));
  }
  if (config.import_roots.empty() || config.export_roots.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "refusing to listen on \"", config.listen,
        "\", which other machines reach, without --import-root and "
        "--export-root: they say which folders of this machine callers may "
        "read and write"));
  }
  return absl::OkStatus();
}

absl::Status ApplyConfigText(absl::string_view text, const std::string& path,
                             Config& config) {
  if (text.size() > kMaxConfigFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": longer than ", kMaxConfigFileBytes, " bytes"));
  }
  // yaml-cpp reports errors by throwing.
  try {
    return ApplyDocument(YAML::Load(std::string(text)), path, config);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc,
                                             const char* const* argv) {
  CLI::App app("hearthd: the Hearth training daemon", "hearthd");
  Flags flags;
  AddFlags(app, flags);
  CommandLine line;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return absl::InvalidArgumentError(
        options::ParseFault(app, error, arguments));
  }
  if (flags.version) {
    line.text = VersionText();
    return line;
  }
  line.config.data_dir = DefaultDataDir();
  if (!flags.config_file.empty()) {
    HEARTH_RETURN_IF_ERROR(ApplyConfigFile(flags.config_file, line.config));
  }
  for (const Option& option : kOptions) {
    const Values& values = flags.values[option.name];
    if (values.empty()) continue;
    HEARTH_RETURN_IF_ERROR(Annotate(option.set(values, line.config),
                                    absl::StrCat("--", option.name)));
  }
  HEARTH_RETURN_IF_ERROR(CheckListening(line.config));
  return line;
}

std::string ManPage() {
  CLI::App app("Keeps graphs, caches and pipelines, and trains for hearth");
  Flags flags;
  AddFlags(app, flags);
  return options::ManPage(
      app,
      {.name = "hearthd",
       .section = 8,
       .command = "hearthd",
       .source = absl::StrCat("Hearth ", kVersion),
       .paragraphs = {"Each option is a key of the configuration file, too; "
                      "flags win.",
                      "SIGTERM and SIGINT stop it: running jobs go on from a "
                      "checkpoint at the next start. A second one ends it at "
                      "once, which loses nothing that was acknowledged."},
       .see_also = {"hearth(1)"}});
}

}  // namespace hearth::server
