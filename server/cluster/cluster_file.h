#ifndef HEARTH_SERVER_CLUSTER_CLUSTER_FILE_H_
#define HEARTH_SERVER_CLUSTER_CLUSTER_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"
#include "server/access/tls.h"

/// The file of hearthd --cluster: which daemons train together, and how they
/// reach and recognize each other.

namespace hearth::server {

/// A daemon of a cluster.
struct ClusterMember {
  std::string name;
  /// HOST:PORT; empty until the member tells it (Peers.Enroll).
  std::string address;
};

/// Contents of the file, YAML as in
///
///   name: host-a                 # this daemon
///   listen: 192.0.2.1:7610       # address for the other members
///   certificate: host-a.pem      # files as of hearth admin certs --member;
///   key: host-a-key.pem          # relative paths are of the file's folder
///   authority: ca.pem
///   members:                     # all of them, in the order of their ranks
///     host-a: 192.0.2.1:7610
///     host-b: 192.0.2.2:7610
///     host-c: ~                  # tells its address itself (Peers.Enroll)
struct ClusterFile {
  std::string name;
  std::string listen;
  /// `client_ca` is the cluster's authority.
  TlsFiles tls;
  std::vector<ClusterMember> members;

  /// Null if there is none.
  const ClusterMember* Find(absl::string_view member) const;
};

/// INVALID_ARGUMENT, naming the file and the key at fault; NOT_FOUND.
absl::StatusOr<ClusterFile> ReadClusterFile(io::FileSystem& files,
                                            const std::string& path);

/// Contents of the file `path` with this text.
absl::StatusOr<ClusterFile> ParseClusterFile(const std::string& text,
                                             const std::string& path);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_CLUSTER_FILE_H_
