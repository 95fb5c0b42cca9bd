#ifndef HEARTH_SERVER_FRONT_HTTP_GUARDS_H_
#define HEARTH_SERVER_FRONT_HTTP_GUARDS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "server/front/guard.h"

/// Guards of connections that speak HTTP/1 (the metrics port) and HTTP/2
/// (gRPC).

namespace hearth::server {

/// Greatest size of an HTTP/1 request, in bytes: none has a body.
inline constexpr size_t kMaxHttpRequestBytes = 16 << 10;

/// Guard of a connection with one HTTP/1 request. It has opened with the empty
/// line that ends the request's head.
std::unique_ptr<Guard> NewHttpGuard();

/// Limits for HTTP/2 clients, beyond what gRPC's server checks.
struct Http2Limits {
  /// Streams open at a time: begun by the client, and neither ended by the
  /// server nor reset. `streams` is for one connection (the server announces
  /// half of it), `streams_per_address` for all connections of a client
  /// address.
  size_t streams = 2048;
  size_t streams_per_address = 16'384;
  /// Streams that either side resets before the server has ended them
  /// (CVE-2023-44487): the server frees their state only later. A connection
  /// has a few resets of its own once others of its address have used up
  /// theirs.
  RateLimit resets_per_address = {.burst = 1000, .per_second = 100};
  RateLimit resets = {.burst = 10, .per_second = 1};
  /// Frames that cost work and carry nothing: SETTINGS, PING, PRIORITY,
  /// CONTINUATION, GOAWAY, resets of streams that are over, unknown frames, and
  /// DATA without bytes that does not end its stream. Each PING, SETTINGS and
  /// non-empty DATA of the server gives one back: clients answer the first two,
  /// and clients that measure bandwidth (grpc-go) ping at DATA.
  RateLimit control_frames = {.burst = 2000, .per_second = 500};
};

/// Guards of the connections of one listening socket; they share the limits of
/// each client address. Single-owner.
class Http2Guards {
 public:
  /// `clock` must outlive the object.
  explicit Http2Guards(const Clock& clock, const Http2Limits& limits = {});
  ~Http2Guards();

  /// Guard of a connection of HTTP/2 with prior knowledge (RFC 9113), as gRPC
  /// speaks it. It has opened with the preface and the head of SETTINGS. It
  /// counts frames; the server checks their contents. It must not outlive the
  /// object.
  std::unique_ptr<Guard> NewGuard(const std::string& address);

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

/// First bytes of a connection that is a link between ranks, not gRPC's.
inline constexpr absl::string_view kLinkMagic = "HRTHLNK1";

/// Guard of a connection at the members' address: of a link, whose bytes its
/// ranks check (server/cluster), or of HTTP/2. Single-owner.
class PeerGuard final : public Guard {
 public:
  explicit PeerGuard(std::unique_ptr<Guard> http2) : http2_(std::move(http2)) {}

  /// Whether it has opened as a link.
  bool is_link() const { return is_link_.value_or(false); }

  absl::Status OnClientBytes(absl::string_view bytes) override;
  absl::Status OnServerBytes(absl::string_view bytes) override;
  bool HasOpened() const override;
  bool IsIdle() const override { return !is_link() && http2_->IsIdle(); }
  bool HasAsked() const override { return is_link() || http2_->HasAsked(); }
  bool HasBeenAnswered() const override {
    return is_link() || http2_->HasBeenAnswered();
  }

 private:
  const std::unique_ptr<Guard> http2_;
  // The first bytes, until they tell what the connection is.
  std::string first_;
  std::optional<bool> is_link_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_HTTP_GUARDS_H_
