#ifndef HEARTH_SERVER_ACCESS_CALLER_H_
#define HEARTH_SERVER_ACCESS_CALLER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "hearth/v1/access.pb.h"

namespace hearth::server {

/// Who makes a call, and what they may do.
struct Caller {
  /// As in v1::Job.owner; empty = unknown.
  std::string name;
  v1::Role role = v1::ROLE_UNSPECIFIED;
  /// Trace of the call; empty = it has none.
  std::string trace_id = {};
};

/// The ways in.
enum class Entrance {
  /// The Unix socket, which tells the user id of the other side.
  kSocket,
  /// A loopback address, which anyone on the machine can reach.
  kLoopback,
  /// A TLS address, which anyone on the network can reach.
  kTls,
};

/// Facts that a connection and a call tell about the caller.
struct Credentials {
  Entrance entrance = Entrance::kTls;
  /// By the kernel; kSocket alone.
  std::optional<uid_t> uid = std::nullopt;
  /// The name (CN) and the URIs of a client certificate, which TLS has
  /// verified; empty = there is none.
  std::string certificate_name = {};
  std::vector<std::string> certificate_uris = {};
  /// The call's "authorization" entry; it holds a secret.
  std::optional<std::string> authorization = std::nullopt;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_CALLER_H_
