#include "server/front/http_guards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "server/front/guard.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

constexpr uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6;
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(uint8_t type, uint32_t stream, const std::string& payload,
                  uint8_t flags = 0) {
  std::string frame;
  for (const size_t shift : {16, 8, 0}) {
    frame.push_back(static_cast<char>(payload.size() >> shift));
  }
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const uint32_t shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  return frame + payload;
}

std::string Reset(uint32_t stream, char code) {
  return Frame(kReset, stream, std::string("\0\0\0", 3) + code);
}

class Http2GuardTest : public ::testing::Test {
 protected:
  absl::Status FromClient(const std::string& bytes) {
    return guard_->OnClientBytes(bytes);
  }
  absl::Status FromServer(const std::string& bytes) {
    return guard_->OnServerBytes(bytes);
  }
  void Open() {
    EXPECT_TRUE(
        FromClient(absl::StrCat(kPreface, Frame(kSettings, 0, ""))).ok());
  }
  // Begins a stream and resets it.
  absl::Status BeginAndReset() {
    stream_ += 2;
    return FromClient(Frame(kHeaders, stream_, "h") + Reset(stream_, 8));
  }

  ManualClock clock_;
  Http2Guards guards_{clock_,
                      {.streams = 4,
                       .streams_per_address = 6,
                       .resets_per_address = {.burst = 2, .per_second = 1},
                       .resets = {.burst = 1, .per_second = 1},
                       .control_frames = {.burst = 5, .per_second = 1}}};
  std::unique_ptr<Guard> guard_ = guards_.NewGuard("somebody");
  uint32_t stream_ = 1;
};

TEST_F(Http2GuardTest, ItOpensWithPrefaceAndSettingsHoweverTheyAreCut) {
  const std::string opening =
      absl::StrCat(kPreface, Frame(kSettings, 0, "abcdef"));
  for (size_t i = 0; i < opening.size() - 2; ++i) {
    EXPECT_FALSE(guard_->HasOpened()) << i;
    ASSERT_TRUE(FromClient(opening.substr(i, 1)).ok()) << i;
    if (i == sizeof(kPreface) - 1 + 12) break;
  }
  EXPECT_TRUE(guard_->HasOpened());
}

TEST_F(Http2GuardTest, AnotherProtocolIsRefusedAtItsFirstOtherByte) {
  EXPECT_TRUE(FromClient("PRI * HTTP/").ok());
  EXPECT_EQ(FromClient("1").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Http2GuardTest, AnotherFirstFrameIsRefused) {
  EXPECT_EQ(FromClient(absl::StrCat(kPreface, Frame(kHeaders, 1, "h"))).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(Http2GuardTest, ItIsIdleWithoutOpenStreams) {
  Open();
  EXPECT_TRUE(guard_->IsIdle());
  EXPECT_FALSE(guard_->HasAsked());
  EXPECT_TRUE(FromClient(Frame(kHeaders, 1, "h")).ok());
  EXPECT_TRUE(guard_->HasAsked());
  EXPECT_FALSE(guard_->IsIdle());
  EXPECT_TRUE(FromServer(Frame(kHeaders, 1, "h") + Frame(kData, 1, "d")).ok());
  EXPECT_FALSE(guard_->IsIdle());
  EXPECT_FALSE(guard_->HasBeenAnswered());
  EXPECT_TRUE(FromServer(Frame(kHeaders, 1, "h", 1)).ok());
  EXPECT_TRUE(guard_->IsIdle());
  EXPECT_TRUE(guard_->HasBeenAnswered());
}

TEST_F(Http2GuardTest, ResetsHaveABudgetThatComesBack) {
  Open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(BeginAndReset().ok());
  EXPECT_THAT(std::string(BeginAndReset().message()), HasSubstr("reset"));
  clock_.seconds += 1.1;
  EXPECT_TRUE(BeginAndReset().ok());
  EXPECT_TRUE(BeginAndReset().ok());
  EXPECT_FALSE(BeginAndReset().ok());
}

TEST_F(Http2GuardTest, ANewConnectionDoesNotBringBackItsPartysBudget) {
  Open();
  while (BeginAndReset().ok()) continue;
  guard_ = guards_.NewGuard("somebody");
  Open();
  // One reset is left to each connection.
  EXPECT_TRUE(BeginAndReset().ok());
  EXPECT_FALSE(BeginAndReset().ok());
  guard_ = guards_.NewGuard("somebody else");
  Open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(BeginAndReset().ok());
}

TEST_F(Http2GuardTest, OpenStreamsOfAPartyAreCountedOverItsConnections) {
  Open();
  for (uint32_t i = 1; i <= 7; i += 2) {
    EXPECT_TRUE(FromClient(Frame(kHeaders, i, "h")).ok());
  }
  const std::unique_ptr<Guard> first = std::move(guard_);
  guard_ = guards_.NewGuard("somebody");
  Open();
  EXPECT_TRUE(FromClient(Frame(kHeaders, 1, "h")).ok());
  EXPECT_TRUE(FromClient(Frame(kHeaders, 3, "h")).ok());
  EXPECT_FALSE(FromClient(Frame(kHeaders, 5, "h")).ok());
}

TEST_F(Http2GuardTest, ResetsThatTheClientMakesTheServerSendCount) {
  Open();
  absl::Status status;
  for (uint32_t i = 1; i <= 7 && status.ok(); i += 2) {
    EXPECT_TRUE(FromClient(Frame(kHeaders, i, "h")).ok());
    status = FromServer(Reset(i, 1));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Http2GuardTest, AnswersToCallsThatAreNotReadAreNoResets) {
  Open();
  for (uint32_t i = 1; i < 100; i += 2) {
    EXPECT_TRUE(FromClient(Frame(kHeaders, i, "h")).ok());
    EXPECT_TRUE(FromServer(Frame(kHeaders, i, "h", 1) + Reset(i, 0)).ok());
  }
}

TEST_F(Http2GuardTest, OpenStreamsAreCounted) {
  Open();
  for (uint32_t i = 1; i <= 7; i += 2) {
    EXPECT_TRUE(FromClient(Frame(kHeaders, i, "h")).ok());
  }
  EXPECT_EQ(FromClient(Frame(kHeaders, 9, "h")).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(Http2GuardTest, FramesThatBringNothingHaveABudget) {
  Open();
  absl::Status status;
  for (int i = 0; i < 5 && status.ok(); ++i) {
    status = FromClient(Frame(kPing, 0, "12345678"));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Http2GuardTest, AFrameIsFreeForEachThatTheServerCallsForOneWith) {
  Open();
  const std::string ping = Frame(kPing, 0, "12345678");
  for (int i = 0; i < 100; ++i) {
    // grpc-go measures bandwidth like this: a ping while data comes, and after
    // each answer.
    EXPECT_TRUE(FromServer(Frame(kData, 1, "d")).ok());
    EXPECT_TRUE(FromClient(ping).ok()) << i;
    EXPECT_TRUE(FromServer(ping).ok());
    EXPECT_TRUE(FromClient(Frame(kPing, 0, "12345678", 1)).ok()) << i;
    EXPECT_TRUE(FromServer(Frame(kSettings, 0, "abcdef")).ok());
    EXPECT_TRUE(FromClient(Frame(kSettings, 0, "", 1)).ok()) << i;
  }
}

TEST_F(Http2GuardTest, WhatTheServerCallsForIsNotKeptBeyondTheBudget) {
  Open();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(FromServer(Frame(kData, 1, "d")).ok());
  }
  const std::string ping = Frame(kPing, 0, "12345678");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(FromClient(ping).ok()) << i;
  EXPECT_FALSE(FromClient(ping).ok());
}

TEST_F(Http2GuardTest, AnswersOfTheServerToFramesThatBringNothingEarnNone) {
  Open();
  absl::Status status;
  for (int i = 0; i < 6 && status.ok(); ++i) {
    status = FromClient(Frame(kPing, 0, "12345678"));
    EXPECT_TRUE(FromServer(Frame(kPing, 0, "12345678", 1) +
                           Frame(kSettings, 0, "", 1) + Frame(kData, 1, ""))
                    .ok());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Http2GuardTest, DataIsFreeHoweverMuchItIs) {
  Open();
  EXPECT_TRUE(FromClient(Frame(kHeaders, 1, "h")).ok());
  const std::string data = Frame(kData, 1, std::string(16384, 'd'));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(FromClient(data).ok());
  // Its bytes are not taken for frames.
  EXPECT_TRUE(FromClient(Frame(kData, 1, Reset(1, 8) + Reset(1, 8))).ok());
  EXPECT_FALSE(guard_->IsIdle());
}

std::unique_ptr<PeerGuard> NewPeerGuard(Http2Guards& guards) {
  return std::make_unique<PeerGuard>(guards.NewGuard("host"));
}

TEST(PeerGuardTest, ALinkOpensWithItsMagicHoweverItIsCut) {
  Http2Guards guards(Clock::Real());
  for (size_t cut = 0; cut <= kLinkMagic.size(); ++cut) {
    const auto guard = NewPeerGuard(guards);
    ASSERT_TRUE(guard->OnClientBytes(kLinkMagic.substr(0, cut)).ok());
    EXPECT_EQ(guard->HasOpened(), cut == kLinkMagic.size());
    ASSERT_TRUE(guard->OnClientBytes(kLinkMagic.substr(cut)).ok());
    EXPECT_TRUE(guard->HasOpened());
    EXPECT_TRUE(guard->is_link());
    // Its ranks check what follows.
    EXPECT_TRUE(guard->OnClientBytes("no HTTP/2").ok());
    EXPECT_TRUE(guard->OnServerBytes("no HTTP/2").ok());
    EXPECT_FALSE(guard->IsIdle());
  }
}

TEST(PeerGuardTest, AnythingElseMustBeHttp2) {
  Http2Guards guards(Clock::Real());
  const auto http2 = NewPeerGuard(guards);
  const std::string preface =
      absl::StrCat(kPreface, Frame(kSettings, 0, "abcdef"));
  for (const char byte : preface) {
    ASSERT_TRUE(http2->OnClientBytes(std::string(1, byte)).ok());
  }
  EXPECT_TRUE(http2->HasOpened());
  EXPECT_FALSE(http2->is_link());
  const auto other = NewPeerGuard(guards);
  EXPECT_FALSE(other->OnClientBytes("HRTHLNK2").ok());
  EXPECT_FALSE(other->is_link());
}

}  // namespace
}  // namespace hearth::server
