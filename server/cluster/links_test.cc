#include "server/cluster/links.h"

#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "gtest/gtest.h"
#include "server/front/sockets.h"

namespace hearth::server {
namespace {

LinkName NameOf(size_t from, size_t to) {
  return {.leader = "host-a",
          .job = "train-3",
          .attempt = 7,
          .nonce = "abc",
          .from = from,
          .to = to};
}

class LinkHubTest : public ::testing::Test {
 protected:
  // A connection from `member` that has said `hello`; its other end stays open
  // in `ends_`.
  int Come(const std::string& member, absl::string_view hello) {
    SocketPair pair = *NewSocketPair();
    Send(pair.other.get(), hello);
    hub_.Add(member, std::move(pair.one));
    return pair.other.Release();
  }

  static void Send(int socket, absl::string_view text) {
    ASSERT_EQ(send(socket, text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
  }

  auto Await(const LinkName& name, const std::string& member,
             double seconds = 0.05) {
    return hub_.Await(name, member, clock_.SteadySeconds() + seconds);
  }

  const Clock& clock_ = Clock::Real();
  LinkHub hub_{clock_};
};

constexpr char kHello[] = "HRTHLNK1host-a train-3 7 abc 0 1\n";

TEST_F(LinkHubTest, GivesALinkWithTheBytesBehindItsHello) {
  const io::Descriptor other(Come("host-a", kHello));
  Send(other.get(), "first");
  const auto link = Await(NameOf(0, 1), "host-a");
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ((*link)->member, "host-a");
  char bytes[16];
  const Wire::Result read = (*link)->wire->Read(absl::MakeSpan(bytes));
  ASSERT_EQ(read.outcome, Wire::Outcome::kMoved);
  EXPECT_EQ(absl::string_view(bytes, read.bytes), "first");
}

TEST_F(LinkHubTest, WaitsForAHelloThatComesInPieces) {
  const io::Descriptor other(Come("host-a", "HRTHLNK1host-a trai"));
  std::thread rest([&] { Send(other.get(), "n-3 7 abc 0 1\n"); });
  EXPECT_TRUE(Await(NameOf(0, 1), "host-a", 30).ok());
  rest.join();
}

// The certificate, the attempt and the ranks must all be right.
TEST_F(LinkHubTest, GivesNoLinkOfAnother) {
  const io::Descriptor member(Come("host-c", kHello));
  const io::Descriptor attempt(
      Come("host-a", "HRTHLNK1host-a train-3 6 abc 0 1\n"));
  const io::Descriptor nonce(
      Come("host-a", "HRTHLNK1host-a train-3 7 abd 0 1\n"));
  const io::Descriptor rank(
      Come("host-a", "HRTHLNK1host-a train-3 7 abc 0 2\n"));
  const io::Descriptor silent(Come("host-a", ""));
  EXPECT_TRUE(absl::IsUnavailable(Await(NameOf(0, 1), "host-a").status()));
  // They are still there for those whom they are for.
  EXPECT_TRUE(Await(NameOf(0, 2), "host-a").ok());
}

TEST_F(LinkHubTest, ForgetsWhatIsNoHello) {
  const io::Descriptor endless(Come("host-a", std::string(5000, 'x')));
  { const io::Descriptor gone(Come("host-a", "HRTHLNK1")); }
  const io::Descriptor good(Come("host-a", kHello));
  EXPECT_TRUE(Await(NameOf(0, 1), "host-a").ok());
}

TEST_F(LinkHubTest, IsBounded) {
  std::vector<io::Descriptor> others;
  others.emplace_back(Come("host-a", kHello));
  for (size_t i = 0; i < LinkHub::kMost; ++i) {
    others.emplace_back(Come("host-b", ""));
  }
  EXPECT_TRUE(absl::IsUnavailable(Await(NameOf(0, 1), "host-a").status()));
}

}  // namespace
}  // namespace hearth::server
