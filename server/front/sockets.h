#ifndef HEARTH_SERVER_FRONT_SOCKETS_H_
#define HEARTH_SERVER_FRONT_SOCKETS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/descriptor.h"

/// TCP sockets, and wires: the plain text bytes of a socket, with or without
/// encryption.

namespace hearth::server {

/// Plain text bytes of one stream socket, which it does not own: what the other
/// side has written, after decryption where there is any. Never blocks.
/// Single-owner.
class Wire {
 public:
  /// Result of a call.
  enum class Outcome {
    kMoved,
    /// No bytes can be moved now; see WaitsToWrite.
    kBlocked,
    /// The other side has sent its last byte.
    kEnded,
    /// The connection cannot be used any more.
    kBroken,
  };
  struct Result {
    Outcome outcome = Outcome::kBroken;
    size_t bytes = 0;
  };

  virtual ~Wire() = default;

  /// Reads up to `out.size()` bytes.
  virtual Result Read(absl::Span<char> out) = 0;
  /// Writes the first bytes of `data`, as many as the socket takes.
  virtual Result Write(absl::string_view data) = 0;
  /// Whether a call was blocked because the socket takes no bytes; then it is
  /// to be repeated when the socket can be written.
  virtual bool WaitsToWrite() const { return false; }
};

/// Wire without encryption.
std::unique_ptr<Wire> NewPlainWire(int socket);

/// Non-blocking socket that listens on `address`, as ParseListenAddress returns
/// it; no other socket can take its port. UNAVAILABLE if it cannot listen.
absl::StatusOr<io::Descriptor> ListenOnTcp(const std::string& address);

/// Two connected stream sockets, non-blocking.
struct SocketPair {
  io::Descriptor one;
  io::Descriptor other;
};
/// RESOURCE_EXHAUSTED if there are no descriptors.
absl::StatusOr<SocketPair> NewSocketPair();

/// Port of a listening socket.
int PortOf(int listener);

/// Client address of a connection, without the port: an IPv4 address, or the
/// first 64 bits of an IPv6 address, since one host commonly has all addresses
/// with them. The socket sends without delay from now on (TCP_NODELAY).
absl::StatusOr<std::string> ReceiveTcp(int connection);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_SOCKETS_H_
