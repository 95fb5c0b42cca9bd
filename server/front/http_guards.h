#ifndef HEARTH_SERVER_FRONT_HTTP_GUARDS_H_
#define HEARTH_SERVER_FRONT_HTTP_GUARDS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "server/front/guard.h"

namespace hearth::server {

/// Bytes of a request of HTTP/1 at most: none has a body.
inline constexpr size_t kMaxHttpRequestBytes = 16 << 10;

/// The guard of a connection with one request of HTTP/1: it has opened with the
/// empty line that ends the request's head.
std::unique_ptr<Guard> NewHttpGuard();

/// Limits for clients of HTTP/2, beyond what the server of gRPC checks.
struct Http2Limits {
  /// Streams open at a time: begun by the client, and neither ended by the
  /// server nor reset. Of one connection, of which the server announces half,
  /// and of one party.
  size_t streams = 2048;
  size_t streams_of_party = 16'384;
  /// Streams that are reset, by either side, before the server has ended them
  /// (CVE-2023-44487): the server frees what it did for them only later. Those
  /// of a party; a connection has a few of its own once others of its party
  /// have used them up.
  Budget resets_of_party = {.burst = 1000, .per_second = 100};
  Budget resets = {.burst = 10, .per_second = 1};
  /// Frames that ask for work and bring none: SETTINGS, PING, PRIORITY,
  /// CONTINUATION, GOAWAY, resets of streams that are over, unknown ones, and
  /// DATA without bytes that does not end its stream. Each PING, SETTINGS and
  /// DATA with bytes of the server earns one: clients answer the former, and
  /// those that measure the way (grpc-go) ping at DATA, as often as it comes.
  Budget control_frames = {.burst = 2000, .per_second = 500};
};

/// The guards of the connections of one address, which know of each other what
/// their parties have left. Single-owner.
class Http2Guards {
 public:
  /// `clock` must outlive this.
  explicit Http2Guards(const Clock& clock, const Http2Limits& limits = {});
  ~Http2Guards();

  /// The guard of a connection of HTTP/2 with prior knowledge (RFC 9113), as
  /// gRPC speaks it: it has opened with the preface and the head of SETTINGS.
  /// Frames are counted; what is in them is the server's to check. It must not
  /// outlive this.
  std::unique_ptr<Guard> NewGuard(const std::string& party);

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_HTTP_GUARDS_H_
