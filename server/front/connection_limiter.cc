// Life of a connection:
//   1. it is accepted, and another one is closed if there are too many;
//   2. its opening begins with its first byte, once the rate limits allow it.
//      Until its guard has opened, its bytes go through the guard and are kept;
//   3. it enters: from now on bytes go both ways, each through the guard. A
//      side whose bytes the other one does not take is not read from;
//   4. it ends: one side closes it, the guard or a time limit says so, or
//      another connection takes its place. Bytes of the server are passed on
//      before.
// Its descriptors are closed at once; its memory stays until all events of the
// same epoll_wait, which may point to it, are handled.
#include "server/front/connection_limiter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "server/log.h"

namespace hearth::server {
namespace {

constexpr int kEventsAtATime = 256;
// Connections accepted before other events are handled.
constexpr int kAcceptsAtATime = 64;
// Bytes of one connection that are moved before other connections get their
// turn.
constexpr size_t kTurnBytes = 256 << 10;
constexpr size_t kPieceBytes = 64 << 10;
// Bytes of a client that are kept until its connection has opened.
constexpr size_t kMostBeforeOpening = 64 << 10;
constexpr double kSweepSeconds = 0.1;
// Age from which on a connection that has not opened may be replaced.
constexpr double kLeastSeconds = 0.1;
// Seconds between two log lines about closed connections.
constexpr double kLogSeconds = 10;

struct Connection;

// Connection and side that an event is about.
struct Handle {
  Connection* connection = nullptr;
  bool is_inner = false;
};

using Connections = std::list<std::unique_ptr<Connection>>;

struct ClientAddress {
  explicit ClientAddress(const RateLimit& openings_per_address)
      : openings(openings_per_address) {}

  bool IsIdle(double now) const {
    return connections == 0 && openings.IsFull(now);
  }

  size_t connections = 0;
  RateLimiter openings;
  // When this address began its last opening.
  double began_at = 0;
};

enum class Opening {
  // No byte has come.
  kSilent,
  // A byte has come, but the rate limits do not allow an opening.
  kWaits,
  kHasBegun,
};

struct Connection {
  Connection(io::Descriptor descriptor, Visitor came, ClientAddress& of)
      : outer(std::move(descriptor)), visitor(std::move(came)), address(of) {}

  std::optional<io::Descriptor> outer;
  Visitor visitor;
  ClientAddress& address;
  Opening opening = Opening::kSilent;
  // The server's side; nullopt before the connection has entered.
  std::optional<io::Descriptor> inner;
  std::function<void(bool has_asked)> leave;
  std::unique_ptr<Wire> inner_wire;
  // Bytes that each side has not taken yet.
  std::string to_inner;
  std::string to_outer;
  bool outer_ended = false;
  bool inner_ended = false;
  bool inner_is_shut = false;
  // The server has closed its side: the rest can be read, but epoll must not
  // report the descriptor any more.
  bool inner_hung_up = false;
  bool is_dead = false;
  double accepted_at = 0;
  // Time since which the client takes no bytes; 0 = it takes them.
  double blocked_since = 0;
  uint32_t outer_events = 0;
  uint32_t inner_events = 0;
  Handle outer_handle;
  Handle inner_handle;
  // List that the connection is in, and its place there.
  Connections* list = nullptr;
  Connections::iterator place;
};

class EpollConnectionLimiter final : public ConnectionLimiter {
 public:
  EpollConnectionLimiter(io::Descriptor listener, std::string name,
                         const LimiterOptions& limits, Receive receive,
                         const Clock& clock)
      : name_(std::move(name)),
        limits_(limits),
        receive_(std::move(receive)),
        clock_(clock),
        listener_(std::move(listener)),
        piece_(kPieceBytes),
        openings_(limits.openings) {}

  ~EpollConnectionLimiter() override { Stop(absl::ZeroDuration()); }

  absl::Status Open() {
    epoll_.emplace(epoll_create1(EPOLL_CLOEXEC));
    if (epoll_->get() < 0) return ErrnoStatus(errno, name_, "epoll_create");
    wake_.emplace(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake_->get() < 0) return ErrnoStatus(errno, name_, "eventfd");
    KeepSpare();
    Watch(wake_->get(), EPOLLIN, &wake_handle_);
    Watch(listener_->get(), EPOLLIN, &listener_handle_);
    listens_ = true;
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  void StopListening() override {
    stops_listening_ = true;
    Wake();
  }

  void Stop(absl::Duration patience) override {
    if (!thread_.joinable()) return;
    stop_at_ = clock_.SteadySeconds() + absl::ToDoubleSeconds(patience);
    stops_listening_ = true;
    Wake();
    thread_.join();
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    static_cast<void>(!write(wake_->get(), &one, sizeof(one)));
  }

  // Adds a descriptor to epoll; its events carry `handle`.
  void Watch(int descriptor, uint32_t events, Handle* handle) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = handle;
    epoll_ctl(epoll_->get(), EPOLL_CTL_ADD, descriptor, &event);
  }

  void KeepSpare() {
    const int spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spare >= 0) spare_.emplace(spare);
  }

  void Run() {
    // OpenSSL writes without MSG_NOSIGNAL.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    std::array<epoll_event, kEventsAtATime> events;
    while (!IsOver()) {
      const int timeout_ms = !hot_.empty() ? 0
                             : NeedsSweeps()
                                 ? static_cast<int>(kSweepSeconds * 1000)
                                 : -1;
      const int count =
          epoll_wait(epoll_->get(), events.data(), kEventsAtATime, timeout_ms);
      now_ = clock_.SteadySeconds();
      for (int i = 0; i < count; ++i) {
        Take(*static_cast<Handle*>(events[i].data.ptr), events[i].events);
      }
      for (Connection* connection : std::exchange(hot_, {})) {
        if (!connection->is_dead) Pump(*connection);
      }
      Sweep();
      dead_.clear();
    }
    while (!opening_.empty()) Close(*opening_.front(), absl::OkStatus());
    while (!open_.empty()) Close(*open_.front(), absl::OkStatus());
    dead_.clear();
    listener_.reset();
  }

  bool IsOver() {
    if (stop_at_ == 0) return false;
    return (opening_.empty() && open_.empty()) ||
           clock_.SteadySeconds() >= stop_at_;
  }

  bool NeedsSweeps() const {
    return stop_at_ != 0 || stops_listening_ != !listens_ ||
           !opening_.empty() || !open_.empty();
  }

  void Take(Handle& handle, uint32_t events) {
    if (&handle == &wake_handle_) {
      uint64_t count = 0;
      static_cast<void>(!read(wake_->get(), &count, sizeof(count)));
    } else if (&handle == &listener_handle_) {
      Accept();
    } else if (!handle.connection->is_dead) {
      if (handle.is_inner) {
        handle.connection->inner_hung_up |=
            (events & (EPOLLHUP | EPOLLERR)) != 0;
      } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
        Close(*handle.connection, absl::OkStatus());
        return;
      }
      if (HasBegun(*handle.connection)) Pump(*handle.connection);
    }
  }

  // Begins the opening of a connection that has sent a byte, if the rate limits
  // allow it. Otherwise the connection rests until BeginOpenings.
  bool HasBegun(Connection& c) {
    // Connections that wait come first.
    if (c.opening == Opening::kSilent && !is_short_of_openings_) Begin(c);
    if (c.opening == Opening::kHasBegun) return true;
    c.opening = Opening::kWaits;
    Update(c.outer->get(), c.outer_handle, c.outer_events, 0);
    return false;
  }

  bool Begin(Connection& c) {
    if (!c.address.openings.HasToken(now_) || !openings_.TryTake(now_))
      return false;
    c.address.openings.TryTake(now_);
    c.address.began_at = now_;
    c.opening = Opening::kHasBegun;
    return true;
  }

  // Begins openings that wait, as far as the rate limits allow: in turn by
  // client address, and of one address the oldest first.
  void BeginOpenings() {
    std::vector<Connection*> waiting;
    for (const auto& connection : opening_) {
      if (connection->opening == Opening::kWaits) {
        waiting.push_back(connection.get());
      }
    }
    is_short_of_openings_ = false;
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const Connection* a, const Connection* b) {
                       return a->address.began_at < b->address.began_at;
                     });
    for (Connection* connection : waiting) {
      if (!openings_.HasToken(now_)) {
        is_short_of_openings_ = true;
        return;
      }
      if (!connection->is_dead && Begin(*connection)) Pump(*connection);
    }
  }

  void Accept() {
    for (int i = 0; i < kAcceptsAtATime && listens_; ++i) {
      if (opening_.size() + open_.size() >= limits_.connections &&
          !opening_.empty() &&
          now_ - opening_.front()->accepted_at < kLeastSeconds) {
        // New connections wait in the kernel's queue, in their order.
        Listen(false);
        return;
      }
      const int accepted = accept4(listener_->get(), nullptr, nullptr,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted >= 0) {
        Admit(io::Descriptor(accepted));
      } else if (errno == EAGAIN || errno == EINVAL) {
        return;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                 errno == ENOMEM) {
        OnShortage(errno);
        return;
      }
      // Other errors: the connection was gone before it was accepted.
    }
  }

  // Descriptors that other parts of the process hold cannot be closed here. The
  // spare descriptor is given up to accept and close one connection; further
  // ones wait a moment.
  void OnShortage(int error) {
    if (Evict(nullptr, nullptr)) return;
    Log("somebody", absl::ResourceExhaustedError(std::strerror(error)));
    spare_.reset();
    const int accepted = accept4(listener_->get(), nullptr, nullptr,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) close(accepted);
    KeepSpare();
    Listen(false);
  }

  // Turns accepting on, or off until the next sweep.
  void Listen(bool listens) {
    if (listens == listens_) return;
    listens_ = listens;
    if (listens) {
      Watch(listener_->get(), EPOLLIN, &listener_handle_);
    } else {
      epoll_ctl(epoll_->get(), EPOLL_CTL_DEL, listener_->get(), nullptr);
    }
  }

  void Admit(io::Descriptor descriptor) {
    const int socket = descriptor.get();
    absl::StatusOr<Visitor> visitor = receive_(socket);
    if (!visitor.ok()) {
      Log("somebody", visitor.status());
      return;
    }
    ClientAddress& address =
        addresses_.Find(visitor->address, limits_.openings_per_address, now_);
    const bool has_place =
        (address.connections < limits_.connections_per_address ||
         Evict(&visitor->address, nullptr)) &&
        (opening_.size() + open_.size() < limits_.connections ||
         Evict(nullptr, nullptr));
    if (!has_place) {
      Log(visitor->address,
          absl::ResourceExhaustedError("too many connections are in use"));
      return;
    }
    ++address.connections;
    auto connection = std::make_unique<Connection>(
        std::move(descriptor), *std::move(visitor), address);
    Connection& added = *connection;
    added.accepted_at = now_;
    added.outer_handle = {&added, false};
    added.inner_handle = {&added, true};
    added.list = &opening_;
    added.place = opening_.insert(opening_.end(), std::move(connection));
    added.outer_events = EPOLLIN;
    Watch(socket, EPOLLIN, &added.outer_handle);
  }

  // Closes the connection that is missed least, of `address` if given, but
  // never `but`. False: none can be closed.
  bool Evict(const std::string* address, const Connection* but) {
    const auto matches = [&](const Connection& connection) {
      return &connection != but &&
             (address == nullptr || connection.visitor.address == *address);
    };
    Connection* answered = nullptr;
    Connection* stalled = nullptr;
    for (const auto& connection : opening_) {
      if (matches(*connection)) return Displace(*connection);
    }
    for (const auto& connection : open_) {
      if (!matches(*connection)) continue;
      const Guard& guard = *connection->visitor.guard;
      if (guard.IsIdle() && !guard.HasBeenAnswered()) {
        return Displace(*connection);
      }
      if (guard.IsIdle() && answered == nullptr) answered = connection.get();
      if (connection->blocked_since != 0 &&
          (stalled == nullptr ||
           connection->blocked_since < stalled->blocked_since)) {
        stalled = connection.get();
      }
    }
    if (answered != nullptr) return Displace(*answered);
    return stalled != nullptr && Displace(*stalled);
  }

  bool Displace(Connection& connection) {
    Close(connection,
          absl::ResourceExhaustedError("another one takes its place"));
    return true;
  }

  // Closes the connection, and logs `reason` if it is an error.
  void Close(Connection& connection, const absl::Status& reason) {
    if (!reason.ok()) Log(connection.visitor.address, reason);
    connection.is_dead = true;
    connection.visitor.wire.reset();
    connection.outer.reset();
    connection.inner.reset();
    if (connection.leave) {
      connection.leave(connection.visitor.guard->HasAsked());
    }
    --connection.address.connections;
    std::erase(hot_, &connection);
    dead_.splice(dead_.end(), *connection.list, connection.place);
  }

  void Log(const std::string& address, const absl::Status& reason) {
    if (last_log_ != 0 && now_ - last_log_ < kLogSeconds) {
      ++unlogged_;
      return;
    }
    LogWarning(name_, ": a connection of ", address,
               " is closed: ", reason.message(), "; ", unlogged_,
               " more since the last such line");
    last_log_ = now_;
    unlogged_ = 0;
  }

  // Moves all bytes that can be moved now.
  void Pump(Connection& connection) {
    size_t moved_in_turn = 0;
    while (true) {
      size_t moved = 0;
      if (!MoveIn(connection, moved) || !MoveOut(connection, moved)) return;
      if (moved == 0) break;
      moved_in_turn += moved;
      if (moved_in_turn >= kTurnBytes) {
        hot_.push_back(&connection);
        break;
      }
    }
    if (moved_in_turn > 0 && connection.list == &open_) {
      open_.splice(open_.end(), open_, connection.place);
    }
    UpdateInterest(connection);
  }

  // Client to server. False: the connection is closed.
  bool MoveIn(Connection& c, size_t& moved) {
    if (c.inner.has_value() && !c.to_inner.empty() &&
        !PassOn(*c.inner_wire, c.to_inner, moved)) {
      // The server takes no more, but may still answer.
      c.to_inner.clear();
      c.outer_ended = true;
    }
    if (!c.outer_ended && (!c.inner.has_value() || c.to_inner.empty())) {
      const Wire::Result read = c.visitor.wire->Read(absl::MakeSpan(piece_));
      if (read.outcome == Wire::Outcome::kBroken ||
          (read.outcome == Wire::Outcome::kEnded && !c.inner.has_value())) {
        Close(c, absl::OkStatus());
        return false;
      }
      c.outer_ended = read.outcome == Wire::Outcome::kEnded;
      if (read.bytes > 0) {
        moved += read.bytes;
        if (!OnClient(c, absl::string_view(piece_.data(), read.bytes))) {
          return false;
        }
      }
    }
    if (c.inner.has_value() && c.outer_ended && c.to_inner.empty() &&
        !c.inner_is_shut) {
      shutdown(c.inner->get(), SHUT_WR);
      c.inner_is_shut = true;
    }
    return true;
  }

  bool OnClient(Connection& c, absl::string_view bytes) {
    const absl::Status status = c.visitor.guard->OnClientBytes(bytes);
    if (!status.ok()) {
      Close(c, status);
      return false;
    }
    if (c.inner.has_value() && c.to_inner.empty()) {
      const Wire::Result written = c.inner_wire->Write(bytes);
      bytes.remove_prefix(written.bytes);
    }
    c.to_inner.append(bytes.data(), bytes.size());
    if (c.inner.has_value()) return true;
    if (c.visitor.guard->HasOpened()) return Enter(c);
    if (c.to_inner.size() <= kMostBeforeOpening) return true;
    Close(c, absl::ResourceExhaustedError("it sends too much to begin with"));
    return false;
  }

  bool Enter(Connection& c) {
    absl::Status entered = MakeInner(c);
    // Descriptors may be short.
    if (absl::IsResourceExhausted(entered) && Evict(nullptr, &c)) {
      entered = MakeInner(c);
    }
    if (!entered.ok()) {
      Close(c, entered);
      return false;
    }
    c.inner_wire = NewPlainWire(c.inner->get());
    open_.splice(open_.end(), opening_, c.place);
    c.list = &open_;
    c.inner_events = EPOLLIN;
    Watch(c.inner->get(), EPOLLIN, &c.inner_handle);
    return true;
  }

  static absl::Status MakeInner(Connection& c) {
    HEARTH_ASSIGN_OR_RETURN(Bridge bridge, c.visitor.enter());
    c.inner.emplace(std::move(bridge.socket));
    c.leave = std::move(bridge.leave);
    return absl::OkStatus();
  }

  // Server to client. False: the connection is closed.
  bool MoveOut(Connection& c, size_t& moved) {
    if (!c.inner.has_value()) return true;
    size_t taken = 0;
    bool is_broken =
        !c.to_outer.empty() && !PassOn(*c.visitor.wire, c.to_outer, taken);
    if (!is_broken && !c.inner_ended &&
        c.to_outer.size() < limits_.kept_bytes) {
      const Wire::Result read = c.inner_wire->Read(absl::MakeSpan(piece_));
      c.inner_ended = read.outcome == Wire::Outcome::kEnded ||
                      read.outcome == Wire::Outcome::kBroken;
      absl::string_view bytes(piece_.data(), read.bytes);
      const absl::Status status = c.visitor.guard->OnServerBytes(bytes);
      if (!status.ok()) {
        Close(c, status);
        return false;
      }
      if (!bytes.empty() && c.to_outer.empty()) {
        const Wire::Result written = c.visitor.wire->Write(bytes);
        is_broken = written.outcome == Wire::Outcome::kBroken;
        taken += written.bytes;
        bytes.remove_prefix(written.bytes);
      }
      c.to_outer.append(bytes.data(), bytes.size());
      moved += read.bytes;
    }
    moved += taken;
    if (is_broken || (c.inner_ended && c.to_outer.empty())) {
      Close(c, absl::OkStatus());
      return false;
    }
    if (c.to_outer.empty()) {
      c.blocked_since = 0;
    } else if (taken > 0 || c.blocked_since == 0) {
      c.blocked_since = now_;
    }
    return true;
  }

  // Writes the first bytes of `kept`. False: no more bytes can be written.
  static bool PassOn(Wire& wire, std::string& kept, size_t& moved) {
    const Wire::Result written = wire.Write(kept);
    moved += written.bytes;
    kept.erase(0, written.bytes);
    if (kept.empty()) std::string().swap(kept);
    return written.outcome != Wire::Outcome::kBroken;
  }

  void UpdateInterest(Connection& c) {
    const bool reads_outer =
        !c.outer_ended && (!c.inner.has_value() || c.to_inner.empty());
    const bool writes_outer =
        !c.to_outer.empty() || c.visitor.wire->WaitsToWrite();
    Update(c.outer->get(), c.outer_handle, c.outer_events,
           (reads_outer ? EPOLLIN : 0u) | (writes_outer ? EPOLLOUT : 0u));
    if (!c.inner.has_value()) return;
    const bool reads_inner =
        !c.inner_ended && c.to_outer.size() < limits_.kept_bytes;
    if (c.inner_hung_up && !reads_inner) {
      // epoll would report the hang-up again and again.
      epoll_ctl(epoll_->get(), EPOLL_CTL_DEL, c.inner->get(), nullptr);
      return;
    }
    Update(c.inner->get(), c.inner_handle, c.inner_events,
           (reads_inner ? EPOLLIN : 0u) | (c.to_inner.empty() ? 0u : EPOLLOUT));
  }

  void Update(int descriptor, Handle& handle, uint32_t& current,
              uint32_t wanted) {
    if (current == wanted) return;
    current = wanted;
    epoll_event event{};
    event.events = wanted;
    event.data.ptr = &handle;
    epoll_ctl(epoll_->get(), EPOLL_CTL_MOD, descriptor, &event);
  }

  // Applies time limits, every kSweepSeconds.
  void Sweep() {
    if (stops_listening_) {
      if (listener_.has_value()) {
        Listen(false);
        listener_.reset();
      }
      listens_ = false;
    }
    if (now_ - last_sweep_ < kSweepSeconds) return;
    last_sweep_ = now_;
    if (!stops_listening_) Listen(true);
    if (!spare_.has_value()) KeepSpare();
    const double opened_by = now_ - absl::ToDoubleSeconds(limits_.opening);
    while (!opening_.empty() && opening_.front()->accepted_at < opened_by) {
      Close(*opening_.front(),
            opening_.front()->opening == Opening::kWaits
                ? absl::ResourceExhaustedError("too many are being opened")
                : absl::DeadlineExceededError("it has not begun to speak"));
    }
    BeginOpenings();
    const double taken_by = now_ - absl::ToDoubleSeconds(limits_.stall);
    std::vector<Connection*> stalled;
    for (const auto& connection : open_) {
      if (connection->blocked_since != 0 &&
          connection->blocked_since < taken_by) {
        stalled.push_back(connection.get());
      }
    }
    for (Connection* connection : stalled) {
      Close(*connection,
            absl::DeadlineExceededError("it does not take its answers"));
    }
  }

  const std::string name_;
  const LimiterOptions limits_;
  const Receive receive_;
  const Clock& clock_;
  std::atomic<double> stop_at_ = 0;
  std::atomic<bool> stops_listening_ = false;
  std::optional<io::Descriptor> epoll_;
  std::optional<io::Descriptor> wake_;
  // All members from here on belong to the thread.
  std::optional<io::Descriptor> listener_;
  std::optional<io::Descriptor> spare_;
  bool listens_ = false;
  Handle wake_handle_;
  Handle listener_handle_;
  double now_ = 0;
  double last_sweep_ = 0;
  double last_log_ = 0;
  size_t unlogged_ = 0;
  std::vector<char> piece_;
  // Connections that have not opened, the oldest first.
  Connections opening_;
  // Connections that have opened, the one that moved a byte least recently
  // first.
  Connections open_;
  Connections dead_;
  // Connections whose turn ended before all their bytes were moved.
  std::vector<Connection*> hot_;
  ClientAddresses<ClientAddress> addresses_;
  // Openings of all client addresses together.
  RateLimiter openings_;
  // Whether openings wait for openings_.
  bool is_short_of_openings_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionLimiter>> ConnectionLimiter::Start(
    io::Descriptor listener, std::string name, const LimiterOptions& limits,
    Receive receive, const Clock& clock) {
  auto limiter = std::make_unique<EpollConnectionLimiter>(
      std::move(listener), std::move(name), limits, std::move(receive), clock);
  if (absl::Status status = limiter->Open(); !status.ok()) return status;
  return limiter;
}

}  // namespace hearth::server
