#ifndef HEARTH_SERVER_PAGE_HTTP_SERVER_H_
#define HEARTH_SERVER_PAGE_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace hearth::server {

/// Resource to GET. `body` is called on any of the server's threads, also
/// concurrently.
struct HttpResource {
  /// Whole path, such as "/metrics".
  std::string path;
  /// Such as "text/plain; charset=utf-8".
  std::string content_type;
  /// Makes the body of each response.
  std::function<std::string()> body;
};

/// Stream of server-sent events: `data` (one line) at once, and again whenever
/// it has changed when it is called once per `interval`. Called on any of the
/// server's threads, also concurrently.
struct HttpStream {
  std::string path;
  std::function<std::string()> data;
  absl::Duration interval = absl::Seconds(1);
};

/// HTTP server for pages, behind a ConnectionLimiter. A connection holds a
/// thread from the arrival of its request until its answer is made.
/// kMostStreams further threads serve streams; beyond that, streams get 503
/// with Retry-After. So slow readers, half requests and streams do not keep
/// other clients from the pages. Thread-safe.
class HttpServer {
 public:
  static constexpr int kMostStreams = 4;

  /// Listens on `address` ("127.0.0.1:9600"; port 0 = any). UNAVAILABLE, naming
  /// the address, if it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(
      const std::string& address, std::vector<HttpResource> resources,
      HttpStream stream);

  /// Ends streams and waits for requests in progress.
  virtual ~HttpServer() = default;

  /// Port in use.
  virtual int port() const = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_HTTP_SERVER_H_
