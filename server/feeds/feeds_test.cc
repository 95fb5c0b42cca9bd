#include "server/feeds/feeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "hearth/v1/jobs.pb.h"
#include "server/feeds/feeds_fixture.h"
#include "server/storage/job_state.h"

namespace hearth::server {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kUser = 7;

// Keeps the error that it is told.
class FakeClient final : public feed::Client {
 public:
  absl::Status Send(const feed::Welcome& /*welcome*/) override {
    return absl::OkStatus();
  }
  absl::Status Send(const feed::OutgoingBatch& /*batch*/) override {
    return absl::OkStatus();
  }
  absl::Status SendEnd(const feed::OpenPass& /*pass*/,
                       const absl::Status& /*status*/) override {
    return absl::OkStatus();
  }
  void SendError(const absl::Status& told) override { error = told; }

  absl::Status error;
};

using FeedsTest = FeedsFixture;

TEST_F(FeedsTest, ATicketIsForOneConnection) {
  const std::string id = NewFeed();
  const absl::StatusOr<std::string> ticket = feeds_.NewTicket(id, 0, kUser);
  ASSERT_TRUE(ticket.ok()) << ticket.status();
  EXPECT_EQ(ticket->size(), 32u);
  EXPECT_NE(*ticket, *feeds_.NewTicket(id, 0, kUser));
  const auto channel = feeds_.Redeem(*ticket, kUser);
  ASSERT_TRUE(channel.ok()) << channel.status();
  EXPECT_EQ(*channel, feeds_.ChannelsOf(id, 1)[0]);
  EXPECT_TRUE(absl::IsPermissionDenied(feeds_.Redeem(*ticket, kUser).status()));
}

TEST_F(FeedsTest, ATicketOfAStreamIsItsCallersAndForNoSocket) {
  const std::string id = NewFeed();
  const std::string ann = "token:ann";
  EXPECT_TRUE(feeds_.Redeem(*feeds_.NewTicket(id, 0, ann), ann).ok());
  for (const Feeds::Holder& other :
       {Feeds::Holder("token:bob"), Feeds::Holder(kUser)}) {
    EXPECT_TRUE(absl::IsPermissionDenied(
        feeds_.Redeem(*feeds_.NewTicket(id, 0, ann), other).status()));
  }
  EXPECT_TRUE(absl::IsPermissionDenied(
      feeds_.Redeem(*feeds_.NewTicket(id, 0, kUser), "uid:7").status()));
}

TEST_F(FeedsTest, AnotherUsersTicketIsVoid) {
  const std::string ticket = *feeds_.NewTicket(NewFeed(), 0, kUser);
  EXPECT_TRUE(
      absl::IsPermissionDenied(feeds_.Redeem(ticket, kUser + 1).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(feeds_.Redeem(ticket, kUser).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(feeds_.Redeem("", kUser).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(
      feeds_.Redeem(std::string(32, '\0'), kUser).status()));
}

TEST_F(FeedsTest, ATicketIsGoodForSoLong) {
  const std::string id = NewFeed();
  const std::string tickets[] = {*feeds_.NewTicket(id, 0, kUser),
                                 *feeds_.NewTicket(id, 0, kUser)};
  clock_.Advance(absl::ToDoubleSeconds(Feeds::kTicketLife));
  feeds_.Sweep();
  EXPECT_TRUE(feeds_.Redeem(tickets[0], kUser).ok());
  clock_.Advance(1);
  EXPECT_TRUE(
      absl::IsPermissionDenied(feeds_.Redeem(tickets[1], kUser).status()));
}

TEST_F(FeedsTest, AUserHasSoManyTickets) {
  const std::string id = NewFeed();
  std::vector<std::string> tickets;
  while (tickets.size() < Feeds::kMostTickets) {
    tickets.push_back(*feeds_.NewTicket(id, 0, kUser));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      feeds_.NewTicket(NewFeed(), 0, kUser).status()));
  EXPECT_TRUE(feeds_.NewTicket(id, 0, kUser + 1).ok());
  EXPECT_TRUE(feeds_.Redeem(tickets[0], kUser).ok());
  EXPECT_TRUE(feeds_.NewTicket(id, 0, kUser).ok());
  clock_.Advance(absl::ToDoubleSeconds(Feeds::kTicketLife) + 1);
  feeds_.Sweep();
  EXPECT_TRUE(feeds_.NewTicket(id, 0, kUser).ok());
}

TEST_F(FeedsTest, TicketsAreForFeedsThatGoOnAndHaveNoClient) {
  EXPECT_TRUE(absl::IsNotFound(feeds_.NewTicket("feed-99", 0, kUser).status()));
  v1::JobSpec import;
  import.mutable_import()->set_name("a");
  const absl::Status no_feed =
      feeds_.NewTicket(store_->Submit("", import)->id(), 0, kUser).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(no_feed));
  EXPECT_THAT(std::string(no_feed.message()), HasSubstr("not a feed"));
  const std::string id = NewFeed();
  EXPECT_TRUE(absl::IsInvalidArgument(feeds_.NewTicket(id, 1, kUser).status()));
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(feeds_.ChannelsOf(id, 1)[0]->Connect(client).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(feeds_.NewTicket(id, 0, kUser).status()));
  feeds_.ChannelsOf(id, 1)[0]->Disconnect(*client);
  EXPECT_TRUE(feeds_.NewTicket(id, 0, kUser).ok());
  ChangeState(id, v1::CANCELLED);
  const absl::Status ended = feeds_.NewTicket(id, 0, kUser).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(ended));
  EXPECT_THAT(std::string(ended.message()), HasSubstr("was cancelled"));
}

TEST_F(FeedsTest, AJobWithoutAClientIsCancelledAfterAWhile) {
  const std::string id = NewFeed();
  const std::string served = NewFeed();
  NewFeed();  // Nobody has asked for its channel.
  feeds_.ChannelsOf(id, 1);
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(feeds_.ChannelsOf(served, 1)[0]->Connect(client).ok());
  clock_.Advance(kPatienceSeconds);
  feeds_.Sweep();
  EXPECT_THAT(cancelled_, IsEmpty());
  clock_.Advance(1);
  feeds_.Sweep();
  EXPECT_THAT(cancelled_, ElementsAre(id));
  ChangeState(id, v1::CANCELLED);
  feeds_.ChannelsOf(served, 1)[0]->Disconnect(*client);
  clock_.Advance(kPatienceSeconds);
  feeds_.Sweep();
  EXPECT_THAT(cancelled_, ElementsAre(id));
  clock_.Advance(1);
  feeds_.Sweep();
  EXPECT_THAT(cancelled_, ElementsAre(id, served));
}

TEST_F(FeedsTest, AJobThatTakesLongToEndIsCancelledOnce) {
  const std::string id = NewFeed();
  feeds_.ChannelsOf(id, 1);
  clock_.Advance(kPatienceSeconds + 1);
  cancel_ = absl::UnavailableError("no disk");
  feeds_.Sweep();
  EXPECT_THAT(cancelled_, IsEmpty());
  cancel_ = absl::OkStatus();
  feeds_.Sweep();
  feeds_.Sweep();
  EXPECT_THAT(cancelled_, ElementsAre(id));
}

TEST_F(FeedsTest, SecondsOfClientsAreCountedOnceAndSlotsByState) {
  const auto has = [this](const std::string& line) {
    feeds_.Sweep();
    return absl::StrContains(registry_->Text(), absl::StrCat(line, "\n"));
  };
  const std::string ids[] = {NewFeed(), NewFeed()};
  for (const std::string& id : ids) feeds_.ChannelsOf(id, 1);
  clock_.Advance(10);
  for (const std::string& id : ids) {
    feeds_.ChannelsOf(id, 1)[0]->AddSeconds({.wait = 1.5, .script = 2});
  }
  EXPECT_TRUE(has("hearth_feed_wait_seconds_total 3"));
  EXPECT_TRUE(has("hearth_feed_script_seconds_total 4"));
  clock_.Advance(10);
  feeds_.ChannelsOf(ids[0], 1)[0]->AddSeconds({.wait = 1});
  EXPECT_TRUE(has("hearth_feed_wait_seconds_total 4"));
  // What a feed has had stays counted once it has ended.
  ChangeState(ids[0], v1::CANCELLED);
  EXPECT_TRUE(has("hearth_feed_wait_seconds_total 4"));
  EXPECT_TRUE(has("hearth_feed_wait_seconds_total 4"));
  const std::shared_ptr<feed::SlotPool> pool = feed::SlotPool::Make(0);
  const std::shared_ptr<feed::Slot> filled = *pool->TakeSlot(1);
  feeds_.ChannelsOf(ids[1], 1)[0]->SetReady({.credits = 3}, {pool});
  EXPECT_TRUE(has("hearth_feed_slots{state=\"filled\"} 1"));
  EXPECT_TRUE(has("hearth_feed_slots{state=\"free\"} 0"));
  EXPECT_TRUE(has("hearth_feed_slots{state=\"held\"} 0"));
}

TEST_F(FeedsTest, ADrainIsForAllFeeds) {
  const std::string ids[] = {NewFeed(), NewFeed()};
  uint64_t pass = 0;
  const auto refuses = [&](const std::string& id) {
    feed::Channel& channel = *feeds_.ChannelsOf(id, 1)[0];
    ++pass;
    EXPECT_TRUE(
        channel.Open({.number = pass, .epoch = static_cast<int64_t>(pass)})
            .ok());
    return !channel.open_pass().has_value();
  };
  EXPECT_FALSE(refuses(ids[0]));
  feeds_.SetDraining(true);
  EXPECT_TRUE(refuses(ids[0]));
  EXPECT_TRUE(refuses(ids[1]));
  feeds_.SetDraining(false);
  EXPECT_FALSE(refuses(ids[0]));
  EXPECT_FALSE(refuses(ids[1]));
}

TEST_F(FeedsTest, AnEndIsToldAndForgottenOnceTheClientHasGone) {
  const std::string id = NewFeed();
  std::shared_ptr<feed::Channel> channel = feeds_.ChannelsOf(id, 1)[0];
  const std::string ticket = *feeds_.NewTicket(id, 0, kUser);
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(channel->Connect(client).ok());
  feeds_.Sweep();
  EXPECT_EQ(client->error, absl::OkStatus());
  v1::JobError error;
  error.set_code(static_cast<int>(absl::StatusCode::kDataLoss));
  error.set_message("bad disk");
  ChangeState(id, v1::FAILED, error);
  feeds_.Sweep();
  EXPECT_EQ(client->error.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(client->error.message()),
              AllOf(HasSubstr(id), HasSubstr("bad disk")));
  EXPECT_EQ(feeds_.ChannelsOf(id, 1)[0], channel);
  channel->Disconnect(*client);
  feeds_.Sweep();
  EXPECT_TRUE(
      absl::IsFailedPrecondition(feeds_.Redeem(ticket, kUser).status()));
  const std::weak_ptr<feed::Channel> forgotten = channel;
  channel.reset();
  EXPECT_TRUE(forgotten.expired());
}

TEST_F(FeedsTest, AnEndAsWishedIsNoError) {
  const std::string id = NewFeed();
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(feeds_.ChannelsOf(id, 1)[0]->Connect(client).ok());
  ChangeState(id, v1::SUCCEEDED);
  feeds_.Sweep();
  EXPECT_EQ(client->error, absl::OkStatus());
  feeds_.ChannelsOf(id, 1)[0]->Disconnect(*client);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(feeds_.ChannelsOf(id, 1)[0]->Connect(client)));
}

TEST_F(FeedsTest, AJobThatIsGoneHasEnded) {
  const std::string id = NewFeed();
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(feeds_.ChannelsOf(id, 1)[0]->Connect(client).ok());
  ChangeState(id, v1::CANCELLED);
  ASSERT_TRUE(store_->Delete(id).ok());
  feeds_.Sweep();
  EXPECT_TRUE(absl::IsNotFound(client->error)) << client->error;
}

TEST_F(FeedsTest, TheQueueHearsOfClients) {
  const std::string id = NewFeed();
  EXPECT_FALSE(feeds_.ClientWaits(id));
  const auto client = std::make_shared<FakeClient>();
  ASSERT_TRUE(feeds_.ChannelsOf(id, 1)[0]->Connect(client).ok());
  EXPECT_TRUE(feeds_.ClientWaits(id));
  EXPECT_FALSE(feeds_.ClientWaits("feed-99"));
  feeds_.Start();
  while (wakes_ == 0) std::this_thread::yield();
  feeds_.Stop();
}

// While jobs end, others ask for tickets to them.
TEST_F(FeedsTest, SweepsAndTicketsGoTogether) {
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(NewFeed());
  std::jthread sweeper([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) feeds_.Sweep();
  });
  std::jthread ender([&] {
    for (const std::string& id : ids) ChangeState(id, v1::CANCELLED);
  });
  for (const std::string& id : ids) {
    const absl::StatusOr<std::string> ticket = feeds_.NewTicket(id, 0, kUser);
    if (!ticket.ok()) continue;
    const auto channel = feeds_.Redeem(*ticket, kUser);
    if (!channel.ok()) continue;
    const auto client = std::make_shared<FakeClient>();
    if ((*channel)->Connect(client).ok()) (*channel)->Disconnect(*client);
  }
  ender.join();
  sweeper.request_stop();
  sweeper.join();
  // A channel may have been made after the last sweep.
  feeds_.Sweep();
  feeds_.Sweep();
  for (const std::string& id : ids) {
    EXPECT_TRUE(
        absl::IsFailedPrecondition(feeds_.NewTicket(id, 0, kUser).status()));
    EXPECT_FALSE(feeds_.ClientWaits(id));
  }
}

}  // namespace
}  // namespace hearth::server
