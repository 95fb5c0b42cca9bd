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

/// Bounds of the connections of one address.
struct FrontLimits {
  /// Connections at a time, in all and of one party.
  size_t connections = 1024;
  size_t connections_per_party = 512;
  /// Openings that may begin, in all and of one party: each costs the front's
  /// thread what its wire computes to begin with, as a TLS handshake.
  Budget openings = kUnlimited;
  Budget openings_of_party = kUnlimited;
  /// How long a connection may take to open (Guard::HasOpened).
  absl::Duration opening = absl::Seconds(5);
  /// How long a client may take none of the bytes that are there for it.
  absl::Duration stall = absl::Seconds(30);
  /// Bytes of the server that are kept for a client that takes them slowly;
  /// then the server waits.
  size_t kept_bytes = 64 << 10;
};

/// The way of a connection to the server.
struct Passage {
  /// A non-blocking stream socket.
  io::Descriptor socket;
  /// Called when nothing more will be passed on, and the socket is closed;
  /// `has_asked` as Guard::HasAsked. Null = nobody needs to know.
  std::function<void(bool has_asked)> leave = nullptr;
};

/// A connection that has come in.
struct Visitor {
  /// Whose it is, as far as that can be told at once: an address, or a user.
  std::string party;
  std::unique_ptr<Wire> wire;
  std::unique_ptr<Guard> guard;
  /// Makes the connection to the server, once the guard has opened.
  std::function<absl::StatusOr<Passage>()> enter;
};

/// Stands before a server: takes the connections of a listening socket, and
/// passes on what they bring once they have shown that they speak the server's
/// protocol. So that no flood of connections or bytes keeps others out:
///
///   - connections are limited, in all and for each party. A new one takes the
///     place of the oldest that has not opened, or else of the one that is idle
///     longest, those that were never answered first, of the same party where
///     that has too many; without such it is closed at once. Where all have
///     just come, it waits a moment first;
///   - openings begin no faster than their budgets allow. Those beyond wait
///     unread: the party that began one the longest time ago is next;
///   - those that do not open in time, or do not take their answers, are
///     closed;
///   - a guard may end a connection at any byte;
///   - a lack of descriptors costs connections that have not opened, or are
///     idle, and is over as soon as there are descriptors again.
///
/// It has one thread, which never blocks but for the next byte.
class Front {
 public:
  /// Called for each connection on the front's thread; the descriptor stays the
  /// front's. An error closes the connection.
  using Receive = std::function<absl::StatusOr<Visitor>(int connection)>;

  /// Takes connections of `listener`, which listens and does not block, from
  /// now on. `name` is that of the address, for the log. `clock` must outlive
  /// the front.
  static absl::StatusOr<std::unique_ptr<Front>> Start(io::Descriptor listener,
                                                      std::string name,
                                                      const FrontLimits& limits,
                                                      Receive receive,
                                                      const Clock& clock);

  virtual ~Front() = default;

  /// Takes no more connections; those there are go on.
  virtual void StopListening() = 0;
  /// Passes on what the server has said until it has closed all connections,
  /// at most for `patience`, and ends. May be called again.
  virtual void Stop(absl::Duration patience) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_CONNECTION_LIMITER_H_
