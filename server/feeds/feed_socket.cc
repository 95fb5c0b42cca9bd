#include "server/feeds/feed_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/io/descriptor.h"
#include "server/feeds/feed_session.h"
#include "server/feeds/packet_sink.h"
#include "server/log.h"

namespace hearth::server {
namespace {

constexpr int kTickMilliseconds = 250;
// A client may hold 16 batches, each announced by some packets.
constexpr int kSendBufferBytes = 4 << 20;
// Packets that are read of one connection before others have their turn.
constexpr int kMostPackets = 64;
constexpr double kNever = -std::numeric_limits<double>::infinity();

class FeedSocketImpl final : public FeedSocket {
 public:
  FeedSocketImpl(std::unique_ptr<SocketListener> listener,
                 io::Descriptor accepting, io::Descriptor wake, Feeds& feeds,
                 const Clock& clock)
      : listener_(std::move(listener)),
        accepting_(std::move(accepting)),
        wake_(std::move(wake)),
        feeds_(feeds),
        clock_(clock),
        thread_([this](const std::stop_token& stop) { Serve(stop); }) {}

  ~FeedSocketImpl() override {
    thread_.request_stop();
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }

  const std::string& path() const override { return listener_->path(); }

 private:
  struct Connection {
    // Owned by the session.
    int descriptor = -1;
    std::shared_ptr<FeedSession> session;
    double since = 0;
  };

  void Serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> waits;
      waits.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
      // A negative descriptor is not looked at.
      const bool rests = clock_.SteadySeconds() < rests_until_;
      waits.push_back({.fd = rests ? -1 : accepting_.get(),
                       .events = POLLIN,
                       .revents = 0});
      for (const Connection& connection : connections_) {
        waits.push_back(
            {.fd = connection.descriptor, .events = POLLIN, .revents = 0});
      }
      if (poll(waits.data(), waits.size(), kTickMilliseconds) < 0 &&
          errno != EINTR) {
        LogError("feed.sock: ", ErrnoStatus(errno, "poll", "wait").ToString());
        return;
      }
      for (size_t i = connections_.size(); i-- > 0;) {
        if (waits[i + 2].revents != 0 && !Read(connections_[i])) {
          Close(i);
        }
      }
      if (waits[1].revents != 0) Accept();
      CloseSilent();
    }
    while (!connections_.empty()) Close(connections_.size() - 1);
  }

  // Takes the packets that have come; false if the connection is to be closed.
  bool Read(const Connection& connection) {
    for (int i = 0; i < kMostPackets; ++i) {
      const ssize_t bytes = recv(connection.descriptor, buffer_.data(),
                                 buffer_.size(), MSG_TRUNC);
      if (bytes < 0) return errno == EAGAIN || errno == EINTR;
      // A packet of no bytes is the end, or a fault.
      if (bytes == 0 || bytes > static_cast<ssize_t>(buffer_.size())) {
        return false;
      }
      const absl::string_view packet(buffer_.data(),
                                     static_cast<size_t>(bytes));
      if (!connection.session->Receive(packet).ok()) return false;
    }
    return true;
  }

  void Accept() {
    io::Descriptor connection(accept4(accepting_.get(), nullptr, nullptr,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.get() < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
          errno == ENOMEM) {
        Rest(errno);
      }
      return;
    }
    rests_until_ = kNever;
    if (connections_.size() >= kMostConnections) return;
    const absl::StatusOr<uid_t> user = listener_->UserOf(connection.get());
    const auto silent = std::count_if(connections_.begin(), connections_.end(),
                                      [](const Connection& other) {
                                        return !other.session->has_said_hello();
                                      });
    if (!user.ok() || silent >= static_cast<ptrdiff_t>(kMostSilent)) return;
    setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes,
               sizeof(kSendBufferBytes));
    const int descriptor = connection.get();
    connections_.push_back(
        {.descriptor = descriptor,
         .session = std::make_shared<FeedSession>(
             std::make_unique<PacketSink>(std::move(connection)),
             [this, user = *user](const std::string& ticket) {
               return feeds_.Redeem(ticket, user);
             }),
         .since = clock_.SteadySeconds()});
  }

  // The connection that waits would wake the thread again at once.
  void Rest(int error) {
    if (rests_until_ == kNever) {
      LogWarning("feed.sock: no connection is accepted for now: ",
                 ErrnoStatus(error, "accept4", "accept").message());
    }
    rests_until_ = clock_.SteadySeconds() + kTickMilliseconds / 1e3;
  }

  void CloseSilent() {
    const double latest =
        clock_.SteadySeconds() - absl::ToDoubleSeconds(kHelloPatience);
    for (size_t i = connections_.size(); i-- > 0;) {
      const Connection& connection = connections_[i];
      if (!connection.session->has_said_hello() && connection.since < latest) {
        Close(i);
      }
    }
  }

  void Close(size_t index) {
    shutdown(connections_[index].descriptor, SHUT_RDWR);
    connections_[index].session->Leave();
    connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(index));
  }

  const std::unique_ptr<SocketListener> listener_;
  const io::Descriptor accepting_;
  const io::Descriptor wake_;
  Feeds& feeds_;
  const Clock& clock_;
  // Used by the thread alone.
  std::vector<Connection> connections_;
  std::array<char, kMaxMessage> buffer_;
  // Time until which no connection is accepted, since there was no descriptor
  // for the last one.
  double rests_until_ = kNever;
  // Last member: the thread ends before what it uses.
  std::jthread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FeedSocket>> FeedSocket::Start(
    std::unique_ptr<SocketListener> listener, Feeds& feeds,
    const Clock& clock) {
  HEARTH_ASSIGN_OR_RETURN(io::Descriptor accepting, listener->Listen());
  io::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return ErrnoStatus(errno, "eventfd", "make");
  return std::make_unique<FeedSocketImpl>(
      std::move(listener), std::move(accepting), std::move(wake), feeds, clock);
}

}  // namespace hearth::server
