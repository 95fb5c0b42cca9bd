#ifndef HEARTH_SERVER_FEEDS_FEED_SOCKET_H_
#define HEARTH_SERVER_FEEDS_FEED_SOCKET_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/access/endpoints.h"
#include "server/feeds/feeds.h"

namespace hearth::server {

/// The Unix socket by which clients take the batches of feed jobs
/// (feeds.proto). One thread accepts connections, reads what clients say and
/// sweeps `feeds`; batches are sent by the threads of the jobs. A connection
/// that says nothing for kHelloPatience, or anything that feeds.proto does not
/// allow, is closed.
class FeedSocket {
 public:
  static constexpr absl::Duration kHelloPatience = absl::Seconds(5);
  /// Connections that have not said hello; connections in all.
  static constexpr size_t kMostSilent = 64;
  static constexpr size_t kMostConnections = 1024;
  /// Greatest length of a message, in bytes.
  static constexpr size_t kMaxMessage = 64 << 10;

  /// Serves `listener`, of packets. `feeds` and `clock` outlive the result.
  static absl::StatusOr<std::unique_ptr<FeedSocket>> Start(
      std::unique_ptr<SocketListener> listener, Feeds& feeds,
      const Clock& clock);

  /// Closes all connections.
  virtual ~FeedSocket() = default;

  /// Path of the socket.
  virtual const std::string& path() const = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_FEED_SOCKET_H_
