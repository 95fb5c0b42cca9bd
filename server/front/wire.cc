#include "server/front/wire.h"

#include <sys/socket.h>

#include <cerrno>

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

}  // namespace hearth::server
