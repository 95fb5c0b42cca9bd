#include "server/front/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"

namespace hearth::server {

namespace {

class PlainWire final : public Wire {
 public:
  explicit PlainWire(int socket) : socket_(socket) {}

  Result Read(absl::Span<char> out) override {
    const ssize_t bytes = recv(socket_, out.data(), out.size(), MSG_DONTWAIT);
    if (bytes == 0) return {.outcome = Outcome::kEnded};
    return ResultOf(bytes);
  }

  Result Write(absl::string_view data) override {
    return ResultOf(
        send(socket_, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }

 private:
  static Result ResultOf(ssize_t bytes) {
    if (bytes >= 0) {
      return {.outcome = Outcome::kMoved, .bytes = static_cast<size_t>(bytes)};
    }
    const bool again =
        errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return {.outcome = again ? Outcome::kBlocked : Outcome::kBroken};
  }

  const int socket_;
};

}  // namespace

std::unique_ptr<Wire> NewPlainWire(int socket) {
  return std::make_unique<PlainWire>(socket);
}

namespace {

absl::Status CannotListen(const std::string& address, int error) {
  return absl::UnavailableError(
      absl::StrCat(address, ": ", std::strerror(error)));
}

void Set(int socket, int level, int option, int value) {
  // The socket works without the option, only more slowly.
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof(value)));
}

}  // namespace

absl::StatusOr<io::Descriptor> ListenOnTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), address.substr(colon + 1).c_str(),
                  &hints, &found) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not an address to listen on"));
  }
  const int socket =
      ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  io::Descriptor listener(socket);
  // Connections of an earlier daemon may still linger.
  Set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  // [::] listens on IPv4 addresses, too.
  if (found->ai_family == AF_INET6) Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const bool listens = socket >= 0 &&
                       bind(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                       listen(socket, SOMAXCONN) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (!listens) return CannotListen(address, error);
  return listener;
}

absl::StatusOr<SocketPair> NewSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                 ends) != 0) {
    return ErrnoStatus(errno, "a connection", "socketpair");
  }
  return SocketPair{io::Descriptor(ends[0]), io::Descriptor(ends[1])};
}

int PortOf(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) !=
      0) {
    return 0;
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<std::string> ReceiveTcp(int connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size) !=
      0) {
    return ErrnoStatus(errno, "a connection", "getpeername");
  }
  Set(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&address)->sin_addr,
              text.data(), text.size());
    return std::string(text.data());
  }
  in6_addr number = reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&number)) {
    inet_ntop(AF_INET, &number.s6_addr[12], text.data(), text.size());
    return std::string(text.data());
  }
  std::fill(number.s6_addr + 8, number.s6_addr + 16, 0);
  inet_ntop(AF_INET6, &number, text.data(), text.size());
  return absl::StrCat("[", text.data(), "]/64");
}

}  // namespace hearth::server
