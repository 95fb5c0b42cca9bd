#include "server/access/socket_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

constexpr int kBacklog = 1024;

// Removes a socket that a daemon before has left.
absl::Status RemoveStale(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : ErrnoStatus(errno, path, "stat");
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is in the way: it is not a socket"));
  }
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, path, "unlink");
}

// Until it listens, nobody can connect to it, whatever its mode.
absl::Status BindTo(int socket, const std::string& path,
                    std::optional<gid_t> group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return ErrnoStatus(errno, path, "bind");
  }
  if (group.has_value() &&
      chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return ErrnoStatus(errno, path, "give it to the group");
  }
  if (chmod(path.c_str(), group.has_value() ? 0660 : 0600) != 0) {
    return ErrnoStatus(errno, path, "chmod");
  }
  return absl::OkStatus();
}

// As IdOfUnknownUsers, of this process. Where /proc is not there, nothing is
// known of any user namespace.
std::optional<uid_t> IdOfUnknownUsersHere() {
  std::ifstream map_file("/proc/self/uid_map");
  std::ifstream overflow_file("/proc/sys/kernel/overflowuid");
  const std::string map{std::istreambuf_iterator<char>(map_file), {}};
  uid_t overflow = 0;
  if (map.empty() || !(overflow_file >> overflow)) return std::nullopt;
  return IdOfUnknownUsers(map, overflow);
}

}  // namespace

std::optional<uid_t> IdOfUnknownUsers(const std::string& uid_map,
                                      uid_t overflow) {
  std::istringstream ranges(uid_map);
  for (uint64_t first, outside, count; ranges >> first >> outside >> count;) {
    if (overflow >= first && overflow - first < count) return std::nullopt;
  }
  return overflow;
}

absl::StatusOr<std::unique_ptr<SocketListener>> SocketListener::Bind(
    const std::string& path, std::optional<gid_t> group) {
  if (path.size() > kMaxPath) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", path.size(), " bytes are too many for the path of a Unix ",
        "socket, which may have ", kMaxPath));
  }
  HEARTH_RETURN_IF_ERROR(RemoveStale(path));
  const int socket =
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return ErrnoStatus(errno, path, "socket");
  std::unique_ptr<SocketListener> listener(new SocketListener(
      path, socket, group.has_value(), IdOfUnknownUsersHere()));
  HEARTH_RETURN_IF_ERROR(BindTo(socket, path, group));
  return listener;
}

SocketListener::~SocketListener() { unlink(path_.c_str()); }

absl::StatusOr<io::Descriptor> SocketListener::Listen() {
  if (listen(socket_.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, path_, "listen");
  }
  return std::move(socket_);
}

absl::StatusOr<uid_t> SocketListener::UserOf(int connection) const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus(errno, path_, "tell who connects");
  }
  if (peer.uid == unknown_users_) {
    return absl::PermissionDeniedError(
        "the daemon's user namespace does not know its user");
  }
  return peer.uid;
}

}  // namespace hearth::server
