#ifndef HEARTH_SERVER_FRONT_SOCKETS_H_
#define HEARTH_SERVER_FRONT_SOCKETS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/descriptor.h"

namespace hearth::server {

/// The bytes of one stream socket, as those on both sides mean them. Never
/// blocks. Does not own the socket. Single-owner.
class Wire {
 public:
  /// Result of a call.
  enum class Outcome {
    kMoved,
    /// Nothing can be moved now; see WaitsToWrite.
    kBlocked,
    /// The other side has said all that it will.
    kEnded,
    /// The connection is of no use any more.
    kBroken,
  };
  struct Result {
    Outcome outcome = Outcome::kBroken;
    size_t bytes = 0;
  };

  virtual ~Wire() = default;

  /// Reads up to `out.size()` bytes.
  virtual Result Read(absl::Span<char> out) = 0;
  /// Writes a beginning of `data`.
  virtual Result Write(absl::string_view data) = 0;
  /// Whether a call was blocked because the socket takes no bytes.
  virtual bool WaitsToWrite() const { return false; }
};

/// The bytes as they are.
std::unique_ptr<Wire> NewPlainWire(int socket);

/// A non-blocking socket that listens on `address`, as ParseListenAddress
/// returns it; its port is taken by it alone. UNAVAILABLE if it cannot.
absl::StatusOr<io::Descriptor> ListenOnTcp(const std::string& address);

/// The port that a listening socket has.
int PortOf(int listener);

/// The address at the other side of a connection, without the port: the number
/// of an IPv4 interface, or the first 64 bits of that of an IPv6 one, all of
/// which one host commonly has. Sends what it is given without delay from now
/// on.
absl::StatusOr<std::string> ReceiveTcp(int connection);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_SOCKETS_H_
