#include "client/launcher/membership.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "client/private_daemon.h"
#include "client/server_choice.h"
#include "client/tls.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"

namespace hearth::launcher {

namespace {

// Longer than any run.
constexpr absl::Duration kLifetime = absl::Hours(24 * 90);
constexpr absl::Duration kCallPatience = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr char kLoopback[] = "127.0.0.1";
constexpr char kOwnSecret[] = "cluster-secret";

std::string NameOf(uint32_t rank) { return absl::StrCat("node-", rank); }

std::string AddressOf(absl::string_view host, uint32_t port) {
  const bool is_v6 = host.find(':') != host.npos && host.front() != '[';
  return is_v6 ? absl::StrCat("[", host, "]:", port)
               : absl::StrCat(host, ":", port);
}

// This machine's address on the way to a host: connecting a socket for
// datagrams sends nothing, and chooses it.
absl::StatusOr<std::string> OwnAddressTowards(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // Any port will do.
  const int error = getaddrinfo(host.c_str(), "7610", &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(host, ", the host of rank 0: ", gai_strerror(error)));
  }
  const absl::Cleanup free_found = [&] { freeaddrinfo(found); };
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int probe = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    const absl::Cleanup close_probe = [&] { close(probe); };
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    char text[NI_MAXHOST];
    if (connect(probe, at->ai_addr, at->ai_addrlen) == 0 &&
        getsockname(probe, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text,
                    sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0) {
      return std::string(text);
    }
  }
  return absl::UnavailableError(
      absl::StrCat(host, ", the host of rank 0: no network leads there"));
}

// The secret of a run on one machine, which the first of its processes makes.
absl::StatusOr<std::string> OwnSecret(const std::string& folder) {
  HEARTH_RETURN_IF_ERROR(client::MakePrivateFolder(folder));
  const std::string path = absl::StrCat(folder, "/", kOwnSecret);
  const std::string made = absl::StrCat(path, ".", getpid());
  HEARTH_ASSIGN_OR_RETURN(const std::string secret,
                          RandomHex(client::kLeastSecretBytes));
  HEARTH_RETURN_IF_ERROR(client::WriteSmallFile(made, secret));
  const bool is_first = link(made.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(made.c_str());
  if (!is_first && error != EEXIST) return absl::ErrnoToStatus(error, path);
  return client::ReadSecret(path);
}

absl::StatusOr<std::string> SecretOf(const MembershipOptions& options) {
  if (!options.secret_file.empty()) {
    return client::ReadSecret(options.secret_file);
  }
  if (options.launch.is_on_one_machine) return OwnSecret(options.shared_folder);
  return absl::FailedPreconditionError(absl::StrCat(
      "a run on several machines needs a secret that only they know: a file of "
      "at least ",
      client::kLeastSecretBytes,
      " bytes, mode 600, which "
      "HEARTH_CLUSTER_SECRET_FILE names on each (head -c 32 /dev/urandom)"));
}

// Text of the file of --cluster. `listen`: HOST:PORT.
std::string ClusterText(const Launch& launch, const std::string& name,
                        const std::string& listen,
                        const std::string& leader_address) {
  std::string text = absl::StrCat(
      "name: ", name, "\nlisten: \"", listen,
      "\"\ncertificate: member.pem\nkey: member.key\nauthority: ca.pem\n"
      "members:\n  ",
      NameOf(0), ": \"", leader_address, "\"\n");
  for (uint32_t rank = 1; rank < launch.size; ++rank) {
    absl::StrAppend(&text, "  ", NameOf(rank), ": ~\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<Membership> Join(const MembershipOptions& options,
                                absl::Time now, const std::stop_token& stop) {
  const Launch& launch = options.launch;
  HEARTH_ASSIGN_OR_RETURN(const std::string secret, SecretOf(options));
  const absl::StatusOr<client::KeyPair> authority =
      client::AuthorityOfSecret(secret, launch.run, now);
  HEARTH_RETURN_IF_ERROR(Annotate(authority.status(), options.secret_file));
  const std::string name = NameOf(launch.rank);
  HEARTH_ASSIGN_OR_RETURN(
      const client::KeyPair own,
      client::NewMemberCertificate(*authority, name, now, kLifetime));

  const std::string leader =
      launch.is_on_one_machine ? kLoopback : launch.leader;
  absl::StatusOr<std::string> found = OwnAddressTowards(leader);
  for (absl::Duration waited; !found.ok() && waited < options.patience;
       waited += kPause) {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    absl::SleepFor(kPause);
    found = OwnAddressTowards(leader);
  }
  HEARTH_ASSIGN_OR_RETURN(const std::string towards_leader, std::move(found));
  const bool is_v6 = towards_leader.find(':') != std::string::npos;
  const uint32_t port = options.port + launch.local_rank;
  const std::string leader_address = AddressOf(leader, options.port);
  const std::string listen = AddressOf(launch.is_on_one_machine ? kLoopback
                                       : is_v6                  ? "::"
                                                                : "0.0.0.0",
                                       port);

  Membership membership;
  membership.address =
      AddressOf(options.host.empty() ? towards_leader : options.host, port);
  // The own name of a host may lead to an address that only others use.
  membership.to_leader = {
      .server = launch.rank == 0 ? AddressOf(is_v6 ? "::1" : kLoopback, port)
                                 : leader_address,
      .ca = authority->certificate,
      .certificate = own.certificate,
      .key = own.key,
      .tls_name = NameOf(0),
      .call_timeout = kCallPatience,
      .call_attempts = 1};

  HEARTH_RETURN_IF_ERROR(client::MakePrivateFolder(options.data_dir));
  const std::string folder = absl::StrCat(options.data_dir, "/cluster");
  membership.cluster_file = absl::StrCat(folder, "/cluster.yaml");
  for (const auto& [file, text] :
       {std::pair{absl::StrCat(folder, "/ca.pem"), authority->certificate},
        std::pair{absl::StrCat(folder, "/member.key"), own.key},
        std::pair{absl::StrCat(folder, "/member.pem"), own.certificate},
        std::pair{membership.cluster_file,
                  ClusterText(launch, name, listen, leader_address)}}) {
    HEARTH_RETURN_IF_ERROR(client::WriteSmallFile(file, text));
  }
  return membership;
}

}  // namespace hearth::launcher
