#include "server/access/socket_listener.h"

#include <grpcpp/security/server_credentials.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

constexpr int kBacklog = 128;
constexpr std::chrono::milliseconds kPause{100};

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
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return ErrnoStatus(errno, path, "socket");
  std::unique_ptr<SocketListener> listener(new SocketListener(
      path, socket, group.has_value(), IdOfUnknownUsersHere()));
  HEARTH_RETURN_IF_ERROR(BindTo(socket, path, group));
  return listener;
}

void SocketListener::Register(grpc::ServerBuilder& builder,
                              AccessControl& access) {
  // Of others than its user, only root gets through mode 0600.
  const size_t users = has_group_ ? kMaxUsers : 2;
  for (size_t i = 0; i < users; ++i) {
    UserDoor door;
    door.door = std::make_shared<Door>(access, Entrance::kSocket);
    const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    credentials->SetAuthMetadataProcessor(door.door);
    door.acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials);
    doors_.push_back(std::move(door));
  }
  // However many others come, these two get in.
  AcceptorOf(geteuid());
  AcceptorOf(0);
}

absl::Status SocketListener::Start() {
  if (listen(socket_, kBacklog) != 0)
    return ErrnoStatus(errno, path_, "listen");
  thread_ = std::thread([this] { TakeConnections(); });
  return absl::OkStatus();
}

void SocketListener::Stop() {
  if (is_stopped_) return;
  is_stopped_ = true;
  // Ends accept, too.
  shutdown(socket_, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  unlink(path_.c_str());
  close(socket_);
}

void SocketListener::TakeConnections() {
  while (true) {
    const int connection =
        accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      HandOver(connection);
    } else if (errno == EINVAL) {
      return;  // Shut down.
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Descriptors or memory are short; they will not be for ever.
      spdlog::warn("{}: accept: {}", path_, std::strerror(errno));
      std::this_thread::sleep_for(kPause);
    }
  }
}

void SocketListener::HandOver(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    spdlog::warn("{}: cannot tell who connects: {}", path_,
                 std::strerror(errno));
    close(connection);
    return;
  }
  if (peer.uid == unknown_users_) {
    spdlog::warn(
        "{}: a user is refused whom the daemon's user namespace does not know",
        path_);
    close(connection);
    return;
  }
  auto* acceptor = AcceptorOf(peer.uid);
  if (acceptor == nullptr) {
    spdlog::warn("{}: user {} is refused: more than {} users have connected",
                 path_, peer.uid, doors_.size());
    close(connection);
    return;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      parameters;
  parameters.listener_fd = socket_;
  parameters.fd = connection;
  acceptor->HandleNewConnection(&parameters);
}

grpc::experimental::ExternalConnectionAcceptor* SocketListener::AcceptorOf(
    uid_t uid) {
  const auto found = door_of_user_.find(uid);
  if (found != door_of_user_.end()) {
    return doors_[found->second].acceptor.get();
  }
  if (door_of_user_.size() == doors_.size()) return nullptr;
  const size_t index = door_of_user_.size();
  door_of_user_[uid] = index;
  doors_[index].door->SetUser(uid);
  return doors_[index].acceptor.get();
}

}  // namespace hearth::server
