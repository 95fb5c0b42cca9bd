#ifndef HEARTH_CLIENT_LAUNCHER_MEMBERSHIP_H_
#define HEARTH_CLIENT_LAUNCHER_MEMBERSHIP_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/hearth_client.h"
#include "client/launcher/launch.h"

namespace hearth::launcher {

/// Port of rank 0's daemon for the others, where nothing else is said.
inline constexpr uint16_t kDefaultPort = 7610;

/// What processes of a run must know beside the launcher's variables.
struct MembershipOptions {
  Launch launch = {};
  /// Data directory of the own daemon: the cluster's files are in its folder
  /// "cluster".
  std::string data_dir = {};
  /// File with the cluster's secret, at least client::kLeastSecretBytes that
  /// all processes share. Empty: one in `shared_folder`, which the first
  /// process makes, of a run on one machine.
  std::string secret_file = {};
  /// Folder of this user's that all processes on this machine share.
  std::string shared_folder = {};
  /// Port of the own daemon is `port` + Launch::local_rank.
  uint16_t port = kDefaultPort;
  /// Name or number by which others reach this machine. Empty: that of the
  /// network interface that leads to rank 0's host.
  std::string host = {};
  /// Time that the name of rank 0's host has to become known: those of pods do
  /// so after the pods have started.
  absl::Duration patience = absl::Minutes(5);
};

/// The own daemon as a member of the run's cluster. Its name is "node-RANK".
struct Membership {
  /// For hearthd --cluster.
  std::string cluster_file = {};
  /// Where others reach the own daemon, HOST:PORT.
  std::string address = {};
  /// Connects to rank 0's daemon as this member.
  client::ClientOptions to_leader = {};
};

/// Writes the own certificate and the file of the cluster: the authority is
/// that of the secret and the run, so that whoever lacks the secret is no
/// member. FAILED_PRECONDITION without a secret on several machines; errors of
/// files name them; UNAVAILABLE if rank 0's host is not known here, CANCELLED
/// if `stop` is requested before it is.
absl::StatusOr<Membership> Join(const MembershipOptions& options,
                                absl::Time now, const std::stop_token& stop);

}  // namespace hearth::launcher

#endif  // HEARTH_CLIENT_LAUNCHER_MEMBERSHIP_H_
