#ifndef HEARTH_SERVER_PAGE_HTTP_SERVER_H_
#define HEARTH_SERVER_PAGE_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace hearth::server {

/// Something to GET. Both functions are called on any of the server's threads,
/// several at a time.
struct HttpResource {
  /// The whole path, as "/metrics".
  std::string path;
  /// As "text/plain; charset=utf-8".
  std::string content_type;
  /// The body, made for each request.
  std::function<std::string()> body;
};

/// A stream of server-sent events: one with `data` at once, and one whenever
/// `data`, looked at once per `interval`, is not what it was. Data is one line.
struct HttpStream {
  std::string path;
  std::function<std::string()> data;
  absl::Duration interval = absl::Seconds(1);
};

/// Serves pages over HTTP, behind a Front: a connection holds a thread from the
/// moment that its request is there until its answer is made. As many streams
/// as kMostStreams have threads of their own beside the others': further ones
/// are told to come back later (503), and nobody who reads slowly, sends half a
/// request or follows a stream keeps others from the pages. Thread-safe.
class HttpServer {
 public:
  static constexpr int kMostStreams = 4;

  /// Listens on `address` ("127.0.0.1:9600"; port 0 = any). UNAVAILABLE naming
  /// the address if it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(
      const std::string& address, std::vector<HttpResource> resources,
      HttpStream stream);

  /// Ends streams and waits for requests in progress.
  virtual ~HttpServer() = default;

  /// The port taken.
  virtual int port() const = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PAGE_HTTP_SERVER_H_
