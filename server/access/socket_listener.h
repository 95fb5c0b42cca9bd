#ifndef HEARTH_SERVER_ACCESS_SOCKET_LISTENER_H_
#define HEARTH_SERVER_ACCESS_SOCKET_LISTENER_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/access/entrances.h"

namespace hearth::server {

/// The user id that the kernel gives for users whom this process's user
/// namespace does not know, `overflow`, if by `uid_map` (/proc/self/uid_map) no
/// known user has it: it then stands for any number of people.
std::optional<uid_t> IdOfUnknownUsers(const std::string& uid_map,
                                      uid_t overflow);

/// A Unix socket on which gRPC is served. It takes connections itself, so that
/// it can ask the kernel who is on the other side, which gRPC cannot, and hands
/// them over by the door of that user. Users whom the daemon's user namespace
/// does not know do not get in: they cannot be told apart. It outlives a lack
/// of descriptors.
///
///   1. Bind makes the socket, which nobody can connect to yet;
///   2. Register gives the doors to the builder of gRPC's server;
///   3. Start, once that server runs, lets connections in;
///   4. Stop, before that server is shut down, lets no more in and removes the
///      socket.
///
/// Single-owner.
class SocketListener {
 public:
  /// Makes the socket, for the daemon's user alone (mode 0600), or, with
  /// `group`, for that group, too (0660). A socket that is there is replaced:
  /// call with the lock of the data directory only. INVALID_ARGUMENT for a path
  /// longer than kMaxPath; FAILED_PRECONDITION if something else is there.
  static absl::StatusOr<std::unique_ptr<SocketListener>> Bind(
      const std::string& path, std::optional<gid_t> group);

  ~SocketListener() { Stop(); }
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  /// `access` must outlive gRPC's server.
  void Register(grpc::ServerBuilder& builder, AccessControl& access);
  absl::Status Start();
  void Stop();

  /// Bytes of a path that the kernel takes.
  static constexpr size_t kMaxPath = 107;
  /// Users that can have connected in the life of a socket that a group may
  /// use; the daemon's own and root are always among them.
  static constexpr size_t kMaxUsers = 64;

 private:
  using Acceptor =
      std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  struct UserDoor {
    std::shared_ptr<Door> door;
    Acceptor acceptor;
  };

  SocketListener(std::string path, int socket, bool has_group,
                 std::optional<uid_t> unknown_users)
      : path_(std::move(path)),
        socket_(socket),
        has_group_(has_group),
        unknown_users_(unknown_users) {}

  void TakeConnections();
  void HandOver(int connection);
  // The acceptor of a user's connections; null if there are too many users.
  grpc::experimental::ExternalConnectionAcceptor* AcceptorOf(uid_t uid);

  const std::string path_;
  const int socket_;
  const bool has_group_;
  const std::optional<uid_t> unknown_users_;
  std::vector<UserDoor> doors_;
  // Index of the door; of the thread's alone once that runs.
  std::map<uid_t, size_t> door_of_user_;
  std::thread thread_;
  bool is_stopped_ = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_SOCKET_LISTENER_H_
