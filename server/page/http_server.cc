#include "server/page/http_server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/descriptor.h"
#include "server/front/connection_limiter.h"
#include "server/front/http_guards.h"
#include "server/front/sockets.h"

namespace hearth::server {
namespace {

// Threads for everything but streams.
constexpr int kPageThreads = 8;
// Time that a thread waits for the limiter to take a part of the answer.
constexpr timeval kPatience = {.tv_sec = 1, .tv_usec = 500'000};
// Connections at a time, if there are kPartOfDescriptors times as many
// descriptors. The limiter keeps the whole answer for a slow reader, so that it
// holds no thread.
constexpr size_t kMostConnections = 256;
constexpr size_t kPartOfDescriptors = 8;
constexpr size_t kKeptBytes = 1 << 20;
constexpr absl::Duration kStall = absl::Seconds(5);
// Time after which an unchanged stream sends a comment to show that it is
// alive.
constexpr absl::Duration kBetweenSignsOfLife = absl::Seconds(15);

// The page loads nothing from other servers, and nobody caches it.
constexpr char kHeaders[] =
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src "
    "'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action "
    "'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n\r\n";

struct Request {
  std::string method;
  // Without query string.
  std::string path;
  std::vector<std::string> hosts = {};
};

// Request with the head `text`; nullopt if it is malformed.
std::optional<Request> Parse(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return std::nullopt;
  }
  Request request = {.method = words[0],
                     .path = words[1].substr(0, words[1].find('?'))};
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    if (!absl::EqualsIgnoreCase(header.first, "host")) continue;
    request.hosts.emplace_back(absl::StripAsciiWhitespace(header.second));
  }
  return request;
}

// Connection, from the limiter, that has sent its request. Closed on
// destruction.
class Exchange {
 public:
  explicit Exchange(io::Descriptor descriptor)
      : descriptor_(std::move(descriptor)) {
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      setsockopt(descriptor_.get(), SOL_SOCKET, option, &kPatience,
                 sizeof(kPatience));
    }
  }

  std::optional<Request> Read() {
    std::string text;
    char piece[4096];
    while (!absl::StrContains(text, "\r\n\r\n")) {
      const ssize_t bytes = recv(descriptor_.get(), piece, sizeof(piece), 0);
      if (bytes <= 0) return std::nullopt;
      text.append(piece, static_cast<size_t>(bytes));
    }
    return Parse(text);
  }

  bool Write(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t bytes =
          send(descriptor_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (bytes <= 0) return false;
      text.remove_prefix(static_cast<size_t>(bytes));
    }
    return true;
  }

  // Whether the client has hung up.
  bool IsOver() {
    char byte = 0;
    return recv(descriptor_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  // Answers with a status other than 200, such as "404 Not Found".
  void Refuse(absl::string_view status, absl::string_view body = "") {
    Write(absl::StrCat("HTTP/1.1 ", status,
                       "\r\nContent-Type: text/plain\r\nContent-Length: ",
                       body.size(), "\r\n", kHeaders, body));
  }

 private:
  io::Descriptor descriptor_;
};

// Whether a request's Host is a loopback name. Any other name may be a
// website's own, which the website has pointed at this machine so that its
// scripts may read the answers.
bool IsOfThisMachine(const std::string& header) {
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

void Send(const HttpResource& resource, Exchange& exchange) {
  const std::string body = resource.body();
  exchange.Write(
      absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: ", resource.content_type,
                   "\r\nContent-Length: ", body.size(), "\r\n", kHeaders)) &&
      exchange.Write(body);
}

class StreamHandler {
 public:
  explicit StreamHandler(HttpStream stream) : stream_(std::move(stream)) {}

  const std::string& path() const { return stream_.path; }

  void Answer(Exchange& exchange) {
    if (!Begin()) {
      exchange.Write(
          absl::StrCat("HTTP/1.1 503 Service Unavailable\r\nRetry-After: "
                       "10\r\nContent-Length: 0\r\n",
                       kHeaders));
      return;
    }
    Follow(exchange);
    End();
  }

  // Ends all streams; later ones end at once.
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

  void Follow(Exchange& exchange) {
    if (!exchange.Write(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: "
                                     "text/event-stream\r\n",
                                     kHeaders))) {
      return;
    }
    std::string last;
    absl::Duration silence;
    do {
      std::string data = stream_.data();
      if (data != last) {
        if (!exchange.Write(absl::StrCat("data: ", data, "\n\n"))) return;
        last = std::move(data);
        silence = absl::ZeroDuration();
      } else if ((silence += stream_.interval) >= kBetweenSignsOfLife) {
        if (!exchange.Write(":\n\n")) return;
        silence = absl::ZeroDuration();
      }
    } while (Pause() && !exchange.IsOver());
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

class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(std::vector<HttpResource> resources, HttpStream stream)
      : resources_(std::move(resources)), stream_(std::move(stream)) {}

  ~HttpServerImpl() override {
    if (limiter_ != nullptr) limiter_->StopListening();
    stream_.Stop();
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    threads_.clear();
    if (limiter_ != nullptr) limiter_->Stop(absl::Seconds(1));
  }

  absl::Status Listen(const std::string& address) {
    absl::StatusOr<io::Descriptor> listener = ListenOnTcp(address);
    if (!listener.ok()) {
      return absl::UnavailableError(absl::StrCat(
          "cannot serve metrics on ", address,
          ": is the address in use? --metrics-listen names another (",
          std::string(listener.status().message()), ")"));
    }
    port_ = PortOf(listener->get());
    rlimit descriptors{};
    getrlimit(RLIMIT_NOFILE, &descriptors);
    const size_t connections = std::min<size_t>(
        kMostConnections, descriptors.rlim_cur / kPartOfDescriptors);
    for (int i = 0; i < kPageThreads + kMostStreams; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
    HEARTH_ASSIGN_OR_RETURN(
        limiter_,
        ConnectionLimiter::Start(
            *std::move(listener), absl::StrCat("metrics on ", address),
            {.connections = connections,
             .connections_per_address = connections,
             .stall = kStall,
             .kept_bytes = kKeptBytes},
            [this](int connection) { return Receive(connection); },
            Clock::Real()));
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  absl::StatusOr<Visitor> Receive(int connection) {
    HEARTH_ASSIGN_OR_RETURN(std::string address, ReceiveTcp(connection));
    return Visitor{.address = std::move(address),
                   .wire = NewPlainWire(connection),
                   .guard = NewHttpGuard(),
                   .enter = [this]() -> absl::StatusOr<Bridge> {
                     HEARTH_ASSIGN_OR_RETURN(io::Descriptor end, Enter());
                     return Bridge{.socket = std::move(end)};
                   }};
  }

  // Makes a connection, and hands one end to the threads.
  absl::StatusOr<io::Descriptor> Enter() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return ErrnoStatus(errno, "a connection", "socketpair");
    }
    absl::MutexLock lock(&mutex_);
    asked_.emplace_back(ends[0]);
    changed_.Signal();
    return io::Descriptor(ends[1]);
  }

  void Work() {
    while (std::optional<Exchange> exchange = Next()) Answer(*exchange);
  }

  // Nullopt: the server stops.
  std::optional<Exchange> Next() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (asked_.empty() && !stopping_) changed_.Wait(&mutex_);
    if (stopping_) return std::nullopt;
    std::optional<Exchange> exchange(std::in_place, std::move(asked_.front()));
    asked_.pop_front();
    return exchange;
  }

  void Answer(Exchange& exchange) {
    const std::optional<Request> request = exchange.Read();
    if (!request.has_value()) {
      exchange.Refuse("400 Bad Request");
    } else if (!std::all_of(request->hosts.begin(), request->hosts.end(),
                            IsOfThisMachine)) {
      exchange.Refuse("421 Misdirected Request",
                      "this server answers as localhost, 127.0.0.1 or [::1] "
                      "alone\n");
    } else if (request->method != "GET") {
      exchange.Refuse("405 Method Not Allowed");
    } else if (request->path == stream_.path()) {
      stream_.Answer(exchange);
    } else {
      const auto found = std::find_if(
          resources_.begin(), resources_.end(),
          [&](const HttpResource& one) { return one.path == request->path; });
      if (found == resources_.end()) {
        exchange.Refuse("404 Not Found");
      } else {
        Send(*found, exchange);
      }
    }
  }

  const std::vector<HttpResource> resources_;
  StreamHandler stream_;
  int port_ = 0;
  absl::Mutex mutex_;
  // Signalled when a request arrives, and when the server stops.
  absl::CondVar changed_;
  std::deque<io::Descriptor> asked_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ConnectionLimiter> limiter_;
  std::vector<std::jthread> threads_;
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
