#include "server/front/connection_limiter.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "engine/io/descriptor.h"
#include "server/front/guard.h"
#include "server/front/sockets.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::Lt;

constexpr char kOpening = '!';

// Opens with a "!", is idle after each line, and takes no "x".
class LineGuard final : public Guard {
 public:
  absl::Status OnClientBytes(absl::string_view bytes) override {
    if (bytes.find('x') != absl::string_view::npos) {
      return absl::ResourceExhaustedError("an x");
    }
    has_opened_ =
        has_opened_ || bytes.find(kOpening) != absl::string_view::npos;
    has_asked_ = has_asked_ || bytes.find('?') != absl::string_view::npos;
    is_idle_ = bytes.empty() ? is_idle_ : bytes.back() == '\n';
    return absl::OkStatus();
  }
  absl::Status OnServerBytes(absl::string_view) override {
    return absl::OkStatus();
  }
  bool HasOpened() const override { return has_opened_; }
  bool IsIdle() const override { return is_idle_; }
  bool HasAsked() const override { return has_asked_; }

 private:
  bool has_opened_ = false;
  bool is_idle_ = false;
  bool has_asked_ = false;
};

// Connection of a client.
class Client {
 public:
  // `host`: the last number of its address, 127.0.0.`host`.
  explicit Client(int port, uint32_t host = 1)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    // A bound for tests that would hang.
    const timeval patience = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    EXPECT_EQ(
        bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(const std::string& text) {
    send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
  }

  // Reads `count` bytes, or fewer where the connection ends before.
  std::string Read(size_t count) {
    std::string text(count, '\0');
    size_t got = 0;
    while (got < count) {
      const ssize_t bytes = recv(socket_, &text[got], count - got, 0);
      if (bytes <= 0) break;
      got += static_cast<size_t>(bytes);
    }
    text.resize(got);
    return text;
  }

  // Blocks until the limiter has closed the connection.
  bool IsClosed() {
    char byte = 0;
    const ssize_t bytes = recv(socket_, &byte, 1, 0);
    return bytes == 0 || (bytes < 0 && errno == ECONNRESET);
  }

  void EndRequests() { shutdown(socket_, SHUT_WR); }

 private:
  const int socket_;
};

// Limiter before a server whose ends of connections the test holds.
class ConnectionLimiterTest : public ::testing::Test {
 protected:
  void Start(const LimiterOptions& limits, const Clock& clock = Clock::Real()) {
    absl::StatusOr<io::Descriptor> listener = ListenOnTcp("127.0.0.1:0");
    ASSERT_TRUE(listener.ok()) << listener.status();
    port_ = PortOf(listener->get());
    auto limiter = ConnectionLimiter::Start(
        *std::move(listener), "here", limits,
        [this](int connection) -> absl::StatusOr<Visitor> {
          absl::StatusOr<std::string> address = ReceiveTcp(connection);
          if (!address.ok()) return address.status();
          return Visitor{.address = *address,
                         .wire = NewPlainWire(connection),
                         .guard = std::make_unique<LineGuard>(),
                         .enter = [this, address]() -> absl::StatusOr<Bridge> {
                           return Enter(*address);
                         }};
        },
        clock);
    ASSERT_TRUE(limiter.ok()) << limiter.status();
    limiter_ = *std::move(limiter);
  }

  // Server's end of the connection that entered as number `index`.
  int ServerEnd(size_t index) {
    absl::MutexLock lock(&mutex_);
    while (entered_.size() <= index) changed_.Wait(&mutex_);
    return entered_[index];
  }

  // Whether the connection that left as number `index` had asked.
  bool HadAsked(size_t index) {
    absl::MutexLock lock(&mutex_);
    while (left_.size() <= index) changed_.Wait(&mutex_);
    return left_[index];
  }

  // Numbers of the connections of `address` that entered.
  std::vector<size_t> EnteredOf(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    std::vector<size_t> numbers;
    for (size_t i = 0; i < addresses_.size(); ++i) {
      if (addresses_[i] == address) numbers.push_back(i);
    }
    return numbers;
  }

  // Connects a client and lets the server answer it.
  std::unique_ptr<Client> Entered(size_t index,
                                  const std::string& line = "!\n") {
    auto client = std::make_unique<Client>(port_);
    client->Send(line);
    const int end = ServerEnd(index);
    EXPECT_EQ(send(end, "ok", 2, MSG_NOSIGNAL), 2);
    EXPECT_EQ(client->Read(2), "ok");
    return client;
  }

  ~ConnectionLimiterTest() override {
    for (const int end : entered_) close(end);
    limiter_.reset();
  }

  absl::StatusOr<Bridge> Enter(const std::string& address) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
      return absl::ResourceExhaustedError("no descriptors");
    }
    absl::MutexLock lock(&mutex_);
    entered_.push_back(ends[0]);
    addresses_.push_back(address);
    changed_.SignalAll();
    return Bridge{.socket = io::Descriptor(ends[1]),
                  .leave = [this](bool has_asked) {
                    absl::MutexLock leaving(&mutex_);
                    left_.push_back(has_asked);
                    changed_.SignalAll();
                  }};
  }

  ManualClock clock_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<int> entered_;
  std::vector<std::string> addresses_;
  // Whether each connection that left had asked.
  std::vector<bool> left_;
  int port_ = 0;
  std::unique_ptr<ConnectionLimiter> limiter_;
};

TEST_F(ConnectionLimiterTest, BytesGoBothWaysAndNoneIsLost) {
  Start({.kept_bytes = 1000});
  Client client(port_);
  const std::string sent(3'000'000, 'a');
  std::thread sender([&] { client.Send("!" + sent); });
  const int end = ServerEnd(0);
  std::string received;
  char piece[4096];
  while (received.size() < sent.size() + 1) {
    const ssize_t bytes = recv(end, piece, sizeof(piece), 0);
    ASSERT_GT(bytes, 0);
    received.append(piece, static_cast<size_t>(bytes));
  }
  sender.join();
  EXPECT_EQ(received, "!" + sent);
  std::thread server([&] {
    send(end, sent.data(), sent.size(), MSG_NOSIGNAL);
    shutdown(end, SHUT_RDWR);
  });
  EXPECT_EQ(client.Read(sent.size() + 1), sent);
  server.join();
}

TEST_F(ConnectionLimiterTest, AnAnswerComesAfterTheClientHasSaidAll) {
  Start({});
  Client client(port_);
  client.Send("!");
  client.EndRequests();
  const int end = ServerEnd(0);
  char byte = 0;
  EXPECT_EQ(recv(end, &byte, 1, 0), 1);
  EXPECT_EQ(recv(end, &byte, 1, 0), 0);
  EXPECT_EQ(send(end, "late", 4, MSG_NOSIGNAL), 4);
  EXPECT_EQ(client.Read(4), "late");
}

TEST_F(ConnectionLimiterTest, WhatDoesNotOpenIsClosedInTimeAndNeverEnters) {
  Start({.opening = absl::Milliseconds(50)});
  Client silent(port_);
  Client talker(port_);
  talker.Send("not yet");
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_TRUE(talker.IsClosed());
  EXPECT_TRUE(entered_.empty());
}

TEST_F(ConnectionLimiterTest,
       OpeningsBeyondTheBudgetOfTheirPartyWaitUnreadAndAreClosed) {
  Start({.openings_per_address = {.burst = 2},
         .opening = absl::Milliseconds(50)});
  const auto first = Entered(0);
  const auto second = Entered(1);
  Client third(port_);
  third.Send("!\n");
  EXPECT_TRUE(third.IsClosed());
  Client other(port_, 2);
  other.Send("!\n");
  ServerEnd(2);
  EXPECT_THAT(EnteredOf("127.0.0.2"), ElementsAre(2));
}

TEST_F(ConnectionLimiterTest, OpeningsOfAllHaveABudgetThatPartiesTakeInTurn) {
  Start({.openings = {.burst = 1, .per_second = 1}}, clock_);
  const auto open = Entered(0);
  std::vector<std::unique_ptr<Client>> many;
  for (int i = 0; i < 50; ++i) {
    many.push_back(std::make_unique<Client>(port_));
    many.back()->Send("!\n");
  }
  clock_.seconds = clock_.seconds + 1;
  ServerEnd(1);
  Client other(port_, 2);
  other.Send("!\n");
  for (size_t i = 2; EnteredOf("127.0.0.2").empty(); ++i) {
    clock_.seconds = clock_.seconds + 1;
    ServerEnd(i);
  }
  EXPECT_THAT(EnteredOf("127.0.0.2"), ElementsAre(Lt(10)));
  EXPECT_EQ(send(ServerEnd(0), "still", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(open->Read(5), "still");
}

TEST_F(ConnectionLimiterTest, ItTellsWhetherAConnectionHadAskedOnceItHasLeft) {
  Start({});
  Entered(0)->Send("x");
  EXPECT_FALSE(HadAsked(0));
  Entered(1, "!?\n")->Send("x");
  EXPECT_TRUE(HadAsked(1));
}

TEST_F(ConnectionLimiterTest, AGuardEndsAConnection) {
  Start({});
  const auto client = Entered(0);
  client->Send("x");
  EXPECT_TRUE(client->IsClosed());
}

TEST_F(ConnectionLimiterTest, TheOldestThatHasNotOpenedGivesItsPlace) {
  Start({.connections = 3, .connections_per_address = 3});
  const auto open = Entered(0);
  Client first(port_);
  Client second(port_);
  const auto next = Entered(1);
  EXPECT_TRUE(first.IsClosed());
  const auto last = Entered(2);
  EXPECT_TRUE(second.IsClosed());
  EXPECT_EQ(send(ServerEnd(0), "still", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(open->Read(5), "still");
}

TEST_F(ConnectionLimiterTest,
       TheOneThatIsIdleLongestGivesItsPlaceAndNoneThatIsBusy) {
  Start({.connections = 3, .connections_per_address = 3});
  const auto busy = Entered(0, "!busy");
  const auto idle = Entered(1);
  const auto later = Entered(2);
  const auto next = Entered(3);
  EXPECT_TRUE(idle->IsClosed());
  EXPECT_EQ(send(ServerEnd(2), "a", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(later->Read(1), "a");
  EXPECT_EQ(send(ServerEnd(0), "a", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(busy->Read(1), "a");
}

TEST_F(ConnectionLimiterTest, WhereAllAreBusyANewOneIsClosed) {
  Start({.connections = 2, .connections_per_address = 1});
  const auto busy = Entered(0, "!busy");
  Client refused(port_);
  refused.Send("!\n");
  EXPECT_TRUE(refused.IsClosed());
}

TEST_F(ConnectionLimiterTest, AClientThatTakesNoAnswersIsClosed) {
  Start({.stall = absl::Milliseconds(50), .kept_bytes = 1000});
  const auto client = Entered(0);
  const int end = ServerEnd(0);
  const std::string answer(1 << 20, 'a');
  // Fails once the limiter has closed its end.
  while (send(end, answer.data(), answer.size(), MSG_NOSIGNAL) > 0) continue;
}

// Connections take all descriptors but a few; the limiter goes on answering.
TEST_F(ConnectionLimiterTest, ALackOfDescriptorsPasses) {
  Start({.connections = 10'000, .connections_per_address = 10'000});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Clients are in this process, too: each connection takes two descriptors.
  rlimit little = before;
  little.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &little), 0);
  std::vector<int> spare;
  for (int i = 0; i < 4; ++i) spare.push_back(dup(0));
  std::vector<int> taken;
  for (int next; (next = dup(0)) >= 0;) taken.push_back(next);
  close(spare[0]);
  {
    // The limiter has no descriptor to accept it with.
    Client refused(port_);
    EXPECT_TRUE(refused.IsClosed());
  }
  for (const int one : taken) close(one);
  const auto client = Entered(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (size_t i = 1; i < spare.size(); ++i) close(spare[i]);
}

TEST_F(ConnectionLimiterTest, ItPassesOnTheLastBytesBeforeItStops) {
  Start({});
  const auto client = Entered(0);
  limiter_->StopListening();
  EXPECT_EQ(send(ServerEnd(0), "bye", 3, MSG_NOSIGNAL), 3);
  shutdown(ServerEnd(0), SHUT_RDWR);
  limiter_->Stop(absl::Seconds(60));
  EXPECT_EQ(client->Read(4), "bye");
}

}  // namespace
}  // namespace hearth::server
