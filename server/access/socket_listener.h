#ifndef HEARTH_SERVER_ACCESS_SOCKET_LISTENER_H_
#define HEARTH_SERVER_ACCESS_SOCKET_LISTENER_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/descriptor.h"

namespace hearth::server {

/// The user id that the kernel gives for users whom this process's user
/// namespace does not know, `overflow`, if by `uid_map` (/proc/self/uid_map) no
/// known user has it: it then stands for any number of people.
std::optional<uid_t> IdOfUnknownUsers(const std::string& uid_map,
                                      uid_t overflow);

/// A Unix socket. It is removed with this. Single-owner.
class SocketListener {
 public:
  /// Makes the socket, which nobody can connect to yet, for the daemon's user
  /// alone (mode 0600), or, with `group`, for that group, too (0660). A socket
  /// that is there is replaced: call with the lock of the data directory only.
  /// INVALID_ARGUMENT for a path longer than kMaxPath; FAILED_PRECONDITION if
  /// something else is there.
  static absl::StatusOr<std::unique_ptr<SocketListener>> Bind(
      const std::string& path, std::optional<gid_t> group);

  ~SocketListener();
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  /// Lets connections in. The descriptor, which does not block, is the
  /// caller's. REQUIRES: called once.
  absl::StatusOr<io::Descriptor> Listen();

  /// The user at the other side of a connection. PERMISSION_DENIED for users
  /// whom the daemon's user namespace does not know: they cannot be told apart.
  absl::StatusOr<uid_t> UserOf(int connection) const;

  bool has_group() const { return has_group_; }

  /// Bytes of a path that the kernel takes.
  static constexpr size_t kMaxPath = 107;

 private:
  SocketListener(std::string path, int socket, bool has_group,
                 std::optional<uid_t> unknown_users)
      : path_(std::move(path)),
        socket_(socket),
        has_group_(has_group),
        unknown_users_(unknown_users) {}

  const std::string path_;
  io::Descriptor socket_;
  const bool has_group_;
  const std::optional<uid_t> unknown_users_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_SOCKET_LISTENER_H_
