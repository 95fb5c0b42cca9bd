#include "server/cluster/links.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"
#include "server/access/access_control.h"
#include "server/front/http_guards.h"
#include "server/front/sockets.h"

// The hello is kLinkMagic and one line of text: leader, job, attempt, nonce and
// both ranks, separated by blanks.

namespace hearth::server {

namespace {

constexpr size_t kMostHelloBytes = 1024;
constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr absl::Duration kConnectPatience = absl::Seconds(2);

std::string HelloOf(const LinkName& name) {
  return absl::StrCat(kLinkMagic, name.leader, " ", name.job, " ", name.attempt,
                      " ", name.nonce, " ", name.from, " ", name.to, "\n");
}

// Waits until the socket can be read or written.
bool AwaitSocket(int socket, short events, double seconds) {
  pollfd polled = {.fd = socket, .events = events, .revents = 0};
  const int most_ms = static_cast<int>(std::max(0.0, seconds) * 1000) + 1;
  return poll(&polled, 1, most_ms) == 1;
}

absl::StatusOr<io::Descriptor> Connect(const std::string& address,
                                       const Clock& clock, double deadline) {
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(std::string(host).c_str(),
                      address.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  std::string reason = "no address";
  int connected = -1;
  for (const addrinfo* at = found; at != nullptr && connected < 0;
       at = at->ai_next) {
    io::Descriptor one(
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = 0;
    socklen_t size = sizeof(error);
    const bool begun = one.get() >= 0 &&
                       (connect(one.get(), at->ai_addr, at->ai_addrlen) == 0 ||
                        errno == EINPROGRESS);
    if (!begun) {
      reason = std::strerror(errno);
    } else if (!AwaitSocket(
                   one.get(), POLLOUT,
                   std::min(deadline - clock.SteadySeconds(),
                            absl::ToDoubleSeconds(kConnectPatience)))) {
      reason = "no answer";
    } else if (getsockopt(one.get(), SOL_SOCKET, SO_ERROR, &error, &size) !=
                   0 ||
               error != 0) {
      reason = std::strerror(error);
    } else {
      connected = one.Release();
    }
  }
  freeaddrinfo(found);
  if (connected < 0) return absl::UnavailableError(reason);
  const int on = 1;
  setsockopt(connected, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return io::Descriptor(connected);
}

absl::Status Say(absl::string_view hello, Wire& wire, int socket,
                 const Clock& clock, double deadline) {
  while (!hello.empty()) {
    const Wire::Result result = wire.Write(hello);
    switch (result.outcome) {
      case Wire::Outcome::kMoved:
        hello.remove_prefix(result.bytes);
        continue;
      case Wire::Outcome::kBlocked:
        break;
      case Wire::Outcome::kEnded:
      case Wire::Outcome::kBroken:
        return absl::UnavailableError(
            "it has refused the connection, or its certificate is another's");
    }
    if (!AwaitSocket(socket, wire.WaitsToWrite() ? POLLOUT : POLLIN,
                     deadline - clock.SteadySeconds())) {
      return absl::UnavailableError("no answer");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Link>> DialOnce(const LinkName& name,
                                               const RankAddress& peer,
                                               TlsClient& tls,
                                               const Clock& clock,
                                               double deadline) {
  HEARTH_ASSIGN_OR_RETURN(io::Descriptor socket,
                          Connect(peer.address, clock, deadline));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<TlsWire> wire,
                          tls.NewWire(socket.get(), peer.member));
  HEARTH_RETURN_IF_ERROR(
      Say(HelloOf(name), *wire, socket.get(), clock, deadline));
  const auto member = MemberOf(wire->PeerCredentials());
  if (!member.ok() || *member != peer.member) {
    return absl::UnavailableError("its certificate is another's");
  }
  return std::make_unique<Link>(
      Link{peer.member, std::move(socket), std::move(wire)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> DialLink(const LinkName& name,
                                               const RankAddress& peer,
                                               TlsClient& tls,
                                               const Clock& clock,
                                               double deadline) {
  while (true) {
    absl::StatusOr<std::unique_ptr<Link>> link =
        DialOnce(name, peer, tls, clock, deadline);
    if (link.ok()) return link;
    if (clock.SteadySeconds() + absl::ToDoubleSeconds(kPause) >= deadline) {
      return Annotate(link.status(),
                      absl::StrCat(peer.member, " at ", peer.address));
    }
    absl::SleepFor(kPause);
  }
}

void LinkHub::Add(const std::string& member, io::Descriptor socket) {
  absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= kMost) waiting_.pop_front();
  waiting_.push_back({.member = member,
                      .socket = std::move(socket),
                      .since = clock_.SteadySeconds()});
}

// Reads what has come of a hello, and no byte behind it.
void LinkHub::ReadHello(Waiting& waiting) {
  std::array<char, kMostHelloBytes> bytes;
  while (!absl::EndsWith(waiting.hello, "\n")) {
    const ssize_t seen = recv(waiting.socket.get(), bytes.data(), bytes.size(),
                              MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return;
    const char* const end = std::find(
        bytes.data(), bytes.data() + std::max<ssize_t>(seen, 0), '\n');
    const auto wanted = static_cast<size_t>(
        std::min<ssize_t>(end - bytes.data() + 1, std::max<ssize_t>(seen, 0)));
    if (seen <= 0 || waiting.hello.size() + wanted > kMostHelloBytes ||
        recv(waiting.socket.get(), bytes.data(), wanted, MSG_DONTWAIT) !=
            static_cast<ssize_t>(wanted)) {
      waiting.is_broken = true;
      return;
    }
    waiting.hello.append(bytes.data(), wanted);
  }
}

absl::StatusOr<std::unique_ptr<Link>> LinkHub::Await(const LinkName& name,
                                                     const std::string& member,
                                                     double deadline) {
  const std::string hello = HelloOf(name);
  while (true) {
    const double now = clock_.SteadySeconds();
    {
      absl::MutexLock lock(&mutex_);
      waiting_.remove_if([&](const Waiting& one) {
        return one.is_broken ||
               now - one.since > absl::ToDoubleSeconds(kPatience);
      });
      for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
        ReadHello(*one);
        if (one->hello != hello || one->member != member) continue;
        const int socket = one->socket.Release();
        waiting_.erase(one);
        return std::make_unique<Link>(
            Link{member, io::Descriptor(socket), NewPlainWire(socket)});
      }
    }
    if (now >= deadline) {
      return absl::UnavailableError(absl::StrCat(member, " has not connected"));
    }
    absl::SleepFor(kPause);
  }
}

}  // namespace hearth::server
