#include "server/page/http_server.h"

#include <CivetServer.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"

namespace hearth::server {
namespace {

// Threads for all but streams. Two half-open connections would block the
// library's default of two.
constexpr int kPageThreads = 8;
// How long a client may take to send its request, or to take a piece of the
// answer.
constexpr char kRequestTimeoutMs[] = "1500";
constexpr std::chrono::milliseconds kKnockInterval{5};
// A stream of which nothing changes shows that it is alive, and finds out
// whether its client is.
constexpr absl::Duration kBetweenSignsOfLife = absl::Seconds(15);

// The page is this server's alone: it loads nothing from elsewhere, and nothing
// of it is kept.
constexpr char kHeaders[] =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src "
    "'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action "
    "'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n\r\n";

bool Write(mg_connection* connection, absl::string_view text) {
  return mg_write(connection, text.data(), text.size()) ==
         static_cast<int>(text.size());
}

bool HasPath(mg_connection* connection, const std::string& path) {
  return mg_get_request_info(connection)->local_uri == path;
}

// Whether a request's Host is this machine as seen from itself, or missing. Any
// other name may be a website's own, which it has given this machine's address
// so that its scripts may read what is answered.
bool IsForThisMachine(const mg_connection* connection) {
  const char* header = mg_get_header(connection, "Host");
  if (header == nullptr) return true;
  const std::string host = absl::AsciiStrToLower(header);
  for (const absl::string_view name : {"localhost", "127.0.0.1", "[::1]"}) {
    absl::string_view rest = host;
    if (!absl::ConsumePrefix(&rest, name)) continue;
    if (rest.empty()) return true;
    return absl::ConsumePrefix(&rest, ":") &&
           std::all_of(rest.begin(), rest.end(), absl::ascii_isdigit);
  }
  return false;
}

// Called for each request before its handler, in place of which it answers by
// returning another code than 0.
int RefuseOtherHosts(mg_connection* connection) {
  if (IsForThisMachine(connection)) return 0;
  constexpr absl::string_view kBody =
      "this server answers as localhost, 127.0.0.1 or [::1] alone\n";
  Write(connection,
        absl::StrCat("HTTP/1.1 421 Misdirected Request\r\nContent-Type: "
                     "text/plain\r\nContent-Length: ",
                     kBody.size(), "\r\n", kHeaders, kBody));
  return 421;
}

// Handlers are asked for all paths that begin with theirs.
void SendNotFound(mg_connection* connection) {
  mg_send_http_error(connection, 404, "%s", "");
}

class ResourceHandler final : public CivetHandler {
 public:
  explicit ResourceHandler(HttpResource resource)
      : resource_(std::move(resource)) {}

  const std::string& path() const { return resource_.path; }

  bool handleGet(CivetServer*, mg_connection* connection) override {
    if (!HasPath(connection, resource_.path)) {
      SendNotFound(connection);
      return true;
    }
    const std::string body = resource_.body();
    Write(connection,
          absl::StrCat(
              "HTTP/1.1 200 OK\r\nContent-Type: ", resource_.content_type,
              "\r\nContent-Length: ", body.size(), "\r\n", kHeaders)) &&
        Write(connection, body);
    return true;
  }

 private:
  const HttpResource resource_;
};

class StreamHandler final : public CivetHandler {
 public:
  explicit StreamHandler(HttpStream stream) : stream_(std::move(stream)) {}

  const std::string& path() const { return stream_.path; }

  bool handleGet(CivetServer*, mg_connection* connection) override {
    if (!HasPath(connection, stream_.path)) {
      SendNotFound(connection);
    } else if (!Begin()) {
      Write(connection,
            absl::StrCat("HTTP/1.1 503 Service Unavailable\r\nRetry-After: "
                         "10\r\nContent-Length: 0\r\n",
                         kHeaders));
    } else {
      Follow(connection);
      End();
    }
    return true;
  }

  // Ends all streams; those to come end at once.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }

 private:
  bool Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (streams_ == HttpServer::kMostStreams) return false;
    ++streams_;
    return true;
  }

  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --streams_;
  }

  void Follow(mg_connection* connection) {
    if (!Write(connection, absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: "
                                        "text/event-stream\r\n",
                                        kHeaders))) {
      return;
    }
    std::string last;
    absl::Duration silence;
    do {
      std::string data = stream_.data();
      if (data != last) {
        if (!Write(connection, absl::StrCat("data: ", data, "\n\n"))) return;
        last = std::move(data);
        silence = absl::ZeroDuration();
      } else if ((silence += stream_.interval) >= kBetweenSignsOfLife) {
        if (!Write(connection, ":\n\n")) return;
        silence = absl::ZeroDuration();
      }
    } while (Pause());
  }

  // False: the server stops.
  bool Pause() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) changed_.WaitWithTimeout(&mutex_, stream_.interval);
    return !stopping_;
  }

  const HttpStream stream_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// Opens and closes a connection to a port of this machine.
void Knock(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Whether it succeeds does not matter: the server has then ended.
  static_cast<void>(connect(connection, reinterpret_cast<sockaddr*>(&address),
                            sizeof(address)));
  close(connection);
}

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(std::vector<HttpResource> resources, HttpStream stream)
      : stream_(std::move(stream)) {
    for (HttpResource& resource : resources) {
      resources_.push_back(
          std::make_unique<ResourceHandler>(std::move(resource)));
    }
  }

  // The library looks whether it shall end when a connection comes, or every
  // two seconds; so connections are made until it has.
  ~HttpServerImpl() override {
    if (server_ == nullptr) return;
    stream_.Stop();
    const int taken = port();
    const std::future<void> end =
        std::async(std::launch::async, [this] { server_.reset(); });
    while (end.wait_for(kKnockInterval) != std::future_status::ready) {
      Knock(taken);
    }
  }

  absl::Status Listen(const std::string& address) {
    CivetCallbacks callbacks;
    callbacks.begin_request = RefuseOtherHosts;
    try {
      server_ = std::make_unique<CivetServer>(
          std::vector<std::string>{"listening_ports", address, "num_threads",
                                   absl::StrCat(kPageThreads + kMostStreams),
                                   "request_timeout_ms", kRequestTimeoutMs},
          &callbacks);
    } catch (const std::exception& error) {
      return absl::UnavailableError(
          absl::StrCat("cannot serve metrics on ", address,
                       ": is the address in use? (", error.what(), ")"));
    }
    for (const auto& resource : resources_) {
      server_->addHandler(resource->path(), *resource);
    }
    server_->addHandler(stream_.path(), stream_);
    return absl::OkStatus();
  }

  int port() const override { return server_->getListeningPorts().front(); }

 private:
  std::vector<std::unique_ptr<ResourceHandler>> resources_;
  StreamHandler stream_;
  // Last: goes first, so that nobody asks handlers that are gone.
  std::unique_ptr<CivetServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(
    const std::string& address, std::vector<HttpResource> resources,
    HttpStream stream) {
  auto server =
      std::make_unique<HttpServerImpl>(std::move(resources), std::move(stream));
  if (const absl::Status status = server->Listen(address); !status.ok()) {
    return status;
  }
  return server;
}

}  // namespace hearth::server
