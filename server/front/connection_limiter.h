#ifndef HEARTH_SERVER_FRONT_CONNECTION_LIMITER_H_
#define HEARTH_SERVER_FRONT_CONNECTION_LIMITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "server/front/guard.h"
#include "server/front/sockets.h"

namespace hearth::server {

/// Bounds of the connections of one listening socket.
struct LimiterOptions {
  /// Connections at a time: in all, and of one client address.
  size_t connections = 1024;
  size_t connections_per_address = 512;
  /// Openings that may begin: in all, and of one client address. Beginning one
  /// costs the limiter's thread the first computations of its wire, such as a
  /// TLS handshake.
  RateLimit openings = kUnlimited;
  RateLimit openings_per_address = kUnlimited;
  /// Time that a connection may take to open (Guard::HasOpened).
  absl::Duration opening = absl::Seconds(5);
  /// Time that a client may leave the bytes that wait for it unread.
  absl::Duration stall = absl::Seconds(30);
  /// Bytes of the server that are kept for a client that reads slowly; beyond
  /// it the server waits.
  size_t kept_bytes = 64 << 10;
};

/// Connection from the limiter to the server.
struct Bridge {
  /// A non-blocking stream socket.
  io::Descriptor socket;
  /// Called once the socket is closed and nothing more is passed on;
  /// `has_asked` as Guard::HasAsked. Null = nobody needs to know.
  std::function<void(bool has_asked)> leave = nullptr;
};

/// Accepted connection.
struct Visitor {
  /// Client that connections are counted for, as far as it is known before a
  /// byte is read: "user 1000", or an IP address as ReceiveTcp returns it.
  std::string address;
  std::unique_ptr<Wire> wire;
  std::unique_ptr<Guard> guard;
  /// Connects to the server; called once the guard has opened.
  std::function<absl::StatusOr<Bridge>()> enter;
};

/// Stands before a server: accepts connections, and passes on their bytes once
/// they have shown that they speak the server's protocol. So that no flood of
/// connections or bytes keeps other clients out:
///
///   - connections are limited, in all and for each client address. A new one
///     replaces the oldest connection that has not opened; without such, the
///     one idle longest, connections that were never answered first; among
///     connections of the same address where that address has too many. It is
///     closed at once where none can be replaced. Where all others are younger
///     than 0.1 s, it waits in the kernel's queue first;
///   - openings begin no faster than their rate limits allow. Connections
///     beyond wait unread, and the address that began one the longest time ago
///     is next;
///   - connections that do not open in time, or do not read their answers, are
///     closed;
///   - a guard may end a connection at any byte;
///   - a lack of descriptors costs connections that have not opened or are
///     idle, and ends as soon as there are descriptors again.
///
/// It has one thread, which blocks only in waiting for the next byte.
class ConnectionLimiter {
 public:
  /// Called for each connection on the limiter's thread; the descriptor stays
  /// the limiter's. An error closes the connection.
  using Receive = std::function<absl::StatusOr<Visitor>(int connection)>;

  /// Accepts connections of `listener`, a non-blocking listening socket, from
  /// now on. `name` is its address, for the log. `clock` must outlive the
  /// result.
  static absl::StatusOr<std::unique_ptr<ConnectionLimiter>> Start(
      io::Descriptor listener, std::string name, const LimiterOptions& limits,
      Receive receive, const Clock& clock);

  virtual ~ConnectionLimiter() = default;

  /// Accepts no more connections; open ones go on.
  virtual void StopListening() = 0;
  /// Passes on the server's bytes until the server has closed all connections,
  /// for `patience` at most, then ends. May be called again.
  virtual void Stop(absl::Duration patience) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_CONNECTION_LIMITER_H_
