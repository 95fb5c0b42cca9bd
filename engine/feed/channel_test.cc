#include "engine/feed/channel.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/slot_pool.h"
#include "engine/strategy/pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::feed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Writes down what it is told: "welcome 2", "batch 1/0", "end 1 after 3",
// "error: ...". Is lost with the first message once `is_lost`.
class FakeClient final : public Client {
 public:
  absl::Status Send(const Welcome& welcome) override {
    return Hear(absl::StrCat("welcome ", welcome.credits));
  }
  absl::Status Send(const OutgoingBatch& batch) override {
    slots.push_back({batch.rows->id(), batch.rest->id()});
    if (on_batch) on_batch(slots.back());
    return Hear(absl::StrCat("batch ", batch.pass, "/", batch.number));
  }
  absl::Status SendEnd(const OpenPass& pass,
                       const absl::Status& status) override {
    return Hear(absl::StrCat("end ", pass.number, " after ", pass.num_batches,
                             status.ok() ? "" : ": ", status.message()));
  }
  void SendError(const absl::Status& error) override {
    heard.push_back(absl::StrCat("error: ", error.message()));
  }

  bool is_lost = false;
  std::function<void(std::vector<uint64_t> slots)> on_batch;
  std::vector<std::string> heard;
  // Of each batch.
  std::vector<std::vector<uint64_t>> slots;

 private:
  absl::Status Hear(std::string message) {
    if (is_lost) return absl::UnavailableError("has gone");
    heard.push_back(std::move(message));
    return absl::OkStatus();
  }
};

class ChannelTest : public testing::Test {
 protected:
  static constexpr int kCredits = 2;
  static constexpr int64_t kBatchSize = 4;

  // A client comes to a job that is ready.
  void Begin() {
    channel_.SetReady({.credits = kCredits, .batch_size = kBatchSize});
    ASSERT_TRUE(channel_.Connect(client_).ok());
  }

  // What the job gets of a request, without waiting for long: seeds, or why
  // there are none.
  std::string Asked(uint64_t pass, int64_t number) {
    const std::optional<SeedRequest> request =
        channel_.AwaitRequest(pass, number, clock_.SteadySeconds(), {});
    if (!request.has_value()) return "none";
    return request->ok() ? absl::StrJoin(**request, ",")
                         : std::string(request->status().message());
  }

  // What the job hears while it waits for a request of pass 1 that does not
  // come: `act` happens after it has begun to wait, or a moment before.
  bool AwaitRequestWhile(const std::function<void()>& act,
                         std::stop_token stop = {}) {
    Begin();
    EXPECT_TRUE(Open(1, Split::kRequests).ok());
    bool has_come = true;
    std::jthread job([&] {
      has_come = channel_.AwaitRequest(1, 0, 1e9, std::move(stop)).has_value();
    });
    act();
    job.join();
    return has_come;
  }

  absl::Status Open(uint64_t number, Split split = Split::kTrain,
                    int64_t first_batch = 0) {
    return channel_.Open(
        {.number = number, .split = split, .next_batch = first_batch});
  }

  // Gives the client a batch; returns its slots.
  std::vector<std::shared_ptr<Slot>> Deliver(uint64_t pass, int64_t number) {
    std::vector<std::shared_ptr<Slot>> slots = {*pool_->TakeSlot(100),
                                                *pool_->TakeSlot(100)};
    channel_.Deliver({.pass = pass,
                      .number = number,
                      .num_seeds = 1,
                      .arrays = arrays_,
                      .rows = slots[0],
                      .rest = slots[1]});
    return slots;
  }

  // Gives the client as many batches as it may hold.
  void DeliverAll(uint64_t pass) {
    for (int i = 0; i < kCredits; ++i) Deliver(pass, i);
  }

  Channel::Demand demand() {
    pass_.reset();
    return channel_.demand(pass_);
  }

  // What the job hears while it waits for a credit of pass 1, with all credits
  // taken: `act` happens after it has begun to wait, or a moment before.
  bool AwaitCreditWhile(const std::function<void()>& act,
                        std::stop_token stop = {}) {
    Begin();
    EXPECT_TRUE(Open(1).ok());
    DeliverAll(1);
    bool may_deliver = false;
    std::jthread job(
        [&] { may_deliver = channel_.AwaitCredit(1, std::move(stop)); });
    act();
    job.join();
    return may_deliver;
  }

  ManualClock clock_;
  int wakes_ = 0;
  Channel channel_{clock_, [this] { ++wakes_; }};
  const std::shared_ptr<FakeClient> client_ = std::make_shared<FakeClient>();
  const std::shared_ptr<SlotPool> pool_ = SlotPool::Make(0);
  const BatchArrays arrays_ = {};
  // Set by demand().
  std::optional<OpenPass> pass_;
};

TEST_F(ChannelTest, SlotsAreCountedByWhereTheyAre) {
  const auto counts = [this] {
    const SlotCounts slots = channel_.slots();
    return std::vector<int64_t>{slots.free, slots.filled, slots.held};
  };
  channel_.SetReady({.credits = kCredits}, {pool_});
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1).ok());
  std::shared_ptr<Slot> filled = *pool_->TakeSlot(100);
  Deliver(1, 0);
  Deliver(1, 1);
  EXPECT_THAT(counts(), ElementsAre(0, 1, 4));
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  EXPECT_THAT(counts(), ElementsAre(2, 1, 2));
  filled.reset();
  EXPECT_THAT(counts(), ElementsAre(3, 0, 2));
  channel_.SetNotReady();
  EXPECT_THAT(counts(), ElementsAre(0, 0, 2));
  // Slots of an earlier run are in none of the pools.
  channel_.SetReady({.credits = kCredits}, {SlotPool::Make(0)});
  EXPECT_THAT(counts(), ElementsAre(0, 0, 2));
}

TEST_F(ChannelTest, ADrainLetsAPassEndAndRefusesTheNextTraining) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  channel_.SetDraining(true);
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  channel_.EndPass(1);
  client_->heard.clear();
  ASSERT_TRUE(Open(2).ok());
  EXPECT_THAT(client_->heard, ElementsAre("end 2 after 0: hearthd is draining: "
                                          "no epoch begins, and no request is "
                                          "answered"));
  // Though it has just asked.
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  EXPECT_FALSE(channel_.ClientWaits());
  ASSERT_TRUE(Open(3, Split::kValid).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  // It stops the validation, as every Open does.
  ASSERT_TRUE(Open(4, Split::kTrain, /*first_batch=*/3).ok());
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  channel_.SetDraining(false);
  ASSERT_TRUE(Open(5, Split::kTrain, /*first_batch=*/3).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
}

TEST_F(ChannelTest, ABatchIsHeldUntilBothOfItsSlotsAreReleased) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  DeliverAll(1);
  EXPECT_THAT(client_->heard,
              ElementsAre("welcome 2", "batch 1/0", "batch 1/1"));
  EXPECT_EQ(channel_.num_delivered(), 2);
  EXPECT_EQ(channel_.held_batches(), 2);
  EXPECT_EQ(channel_.held_bytes(), pool_->bytes());
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
  ASSERT_TRUE(channel_.Release({client_->slots[0][0]}).ok());
  EXPECT_EQ(channel_.held_batches(), 2);
  EXPECT_EQ(pool_->lent(), 3);
  ASSERT_TRUE(channel_.Release({client_->slots[0][1]}).ok());
  EXPECT_EQ(channel_.held_batches(), 1);
  EXPECT_EQ(pool_->lent(), 2);
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  EXPECT_EQ(pass_->next_batch, 2);
}

TEST_F(ChannelTest, ASlotThatIsNotHeldCannotBeReleased) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  const uint64_t slot = client_->slots[0][0];
  EXPECT_TRUE(absl::IsInvalidArgument(channel_.Release({slot + 1000})));
  ASSERT_TRUE(channel_.Release({slot}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(channel_.Release({slot})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      channel_.Release({client_->slots[0][1], client_->slots[0][1]})));
}

TEST_F(ChannelTest, NumbersOfPassesAscend) {
  Begin();
  EXPECT_TRUE(absl::IsInvalidArgument(Open(0)));
  EXPECT_TRUE(Open(5).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Open(5)));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(4)));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(6, Split::kTrain, -1)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      channel_.Open({.number = 6, .epoch = -1, .next_batch = 0})));
  channel_.Close(5);
  EXPECT_TRUE(absl::IsInvalidArgument(Open(5)));
  EXPECT_TRUE(Open(Channel::kMostPasses).ok());
  // Another client counts from the beginning.
  channel_.Disconnect(*client_);
  ASSERT_TRUE(channel_.Connect(std::make_shared<FakeClient>()).ok());
  EXPECT_TRUE(Open(1).ok());
}

TEST_F(ChannelTest, AnotherPassTakesThePlaceOfTheOpenOne) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  ASSERT_TRUE(Open(2, Split::kValid, 3).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  EXPECT_EQ(pass_->number, 2u);
  EXPECT_EQ(pass_->split, Split::kValid);
  EXPECT_EQ(pass_->next_batch, 3);
  // The job may not know it yet.
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  Deliver(1, 1);
  channel_.EndPass(1);
  channel_.Close(1);
  EXPECT_THAT(client_->heard, ElementsAre("welcome 2", "batch 1/0"));
  EXPECT_EQ(pool_->lent(), 2) << "nobody holds what was not delivered";
  EXPECT_TRUE(channel_.AwaitCredit(2, {}));
}

TEST_F(ChannelTest, APassEndsOnce) {
  Begin();
  ASSERT_TRUE(Open(1, Split::kTrain, 4).ok());
  Deliver(1, 4);
  channel_.EndPass(1);
  channel_.EndPass(1);
  EXPECT_THAT(client_->heard,
              ElementsAre("welcome 2", "batch 1/4", "end 1 after 1"));
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
}

TEST_F(ChannelTest, AClosedPassIsWantedNoMore) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  channel_.Close(1);
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  channel_.EndPass(1);
  EXPECT_THAT(client_->heard, ElementsAre("welcome 2", "batch 1/0"));
  EXPECT_EQ(channel_.held_batches(), 1) << "the client still reads it";
}

TEST_F(ChannelTest, ADrainLetsAnEpochGoOnInAPassThatIsOpenedAnew) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  channel_.SetDraining(true);
  ASSERT_TRUE(Open(2, Split::kValid).ok());
  ASSERT_TRUE(Open(3, Split::kTrain, /*first_batch=*/1).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  channel_.Disconnect(*client_);
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1, Split::kTrain, /*first_batch=*/1).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  channel_.Close(1);
  ASSERT_TRUE(Open(2, Split::kTrain, /*first_batch=*/1).ok());
  EXPECT_EQ(demand(), Channel::Demand::kAway);
}

TEST_F(ChannelTest, ADrainRefusesRequests) {
  Begin();
  ASSERT_TRUE(Open(1, Split::kRequests).ok());
  const std::vector<uint64_t> seeds = {1};
  ASSERT_TRUE(channel_.Request(1, seeds, /*goes_on=*/false).ok());
  channel_.SetDraining(true);
  ASSERT_TRUE(channel_.Request(1, seeds, /*goes_on=*/false).ok());
  EXPECT_EQ(Asked(1, 0), "1");
  EXPECT_THAT(Asked(1, 1), ::testing::HasSubstr("draining"));
  Deliver(1, 0);
  channel_.EndPass(1);
  // One that waits for nothing ends at once, and does not wake its job.
  channel_.SetDraining(false);
  ASSERT_TRUE(Open(2, Split::kRequests).ok());
  channel_.SetDraining(true);
  client_->heard.clear();
  ASSERT_TRUE(channel_.Request(2, seeds, /*goes_on=*/false).ok());
  EXPECT_THAT(client_->heard, SizeIs(1));
  EXPECT_EQ(demand(), Channel::Demand::kAway);
}

// A run may still be in the pass of a client that has gone.
TEST_F(ChannelTest, ThePassOfOneClientIsNotTheNextOnes) {
  Begin();
  ASSERT_TRUE(Open(1, Split::kRequests).ok());
  const std::vector<uint64_t> seeds = {7};
  ASSERT_TRUE(channel_.Request(1, seeds, /*goes_on=*/false).ok());
  channel_.Disconnect(*client_);
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1, Split::kRequests, /*first_batch=*/100).ok());
  ASSERT_TRUE(channel_.Request(1, seeds, /*goes_on=*/false).ok());
  client_->heard.clear();
  EXPECT_EQ(Asked(1, 0), "none");
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  Deliver(1, 0);
  channel_.EndPass(1);
  EXPECT_THAT(client_->heard, IsEmpty());
  const uint64_t pass = channel_.open_pass()->number;
  EXPECT_EQ(Asked(pass, 0), "none");
  EXPECT_EQ(Asked(pass, 100), "7");
  EXPECT_EQ(Asked(pass, 101), "none");
  channel_.EndPass(pass);
  EXPECT_THAT(client_->heard, ElementsAre("end 1 after 0"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Open(Channel::kMostPasses + 1, Split::kRequests)));
}

TEST_F(ChannelTest, OneClientAtATime) {
  Begin();
  const auto other = std::make_shared<FakeClient>();
  EXPECT_TRUE(absl::IsAlreadyExists(channel_.Connect(other)));
  channel_.Disconnect(*other);
  EXPECT_TRUE(channel_.has_client());
  channel_.Disconnect(*client_);
  EXPECT_FALSE(channel_.has_client());
  EXPECT_TRUE(channel_.Connect(other).ok());
  EXPECT_THAT(other->heard, ElementsAre("welcome 2"));
}

TEST_F(ChannelTest, WhatALostClientHeldIsLentToNobodyAgain) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  std::vector<std::shared_ptr<Slot>> shared = Deliver(1, 0);
  Deliver(1, 1);
  *shared[0]->data() = std::byte{7};
  channel_.Disconnect(*client_);
  EXPECT_EQ(channel_.held_batches(), 0);
  EXPECT_EQ(pool_->num_slots(), 2) << "only what others hold is left";
  EXPECT_EQ(*shared[0]->data(), std::byte{7});
  const uint64_t id = shared[0]->id();
  shared.clear();
  EXPECT_EQ(pool_->num_slots(), 0);
  EXPECT_NE((*pool_->TakeSlot(100))->id(), id);
}

TEST_F(ChannelTest, AReleasedSlotIsLentAgain) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  EXPECT_EQ(pool_->num_slots(), 2);
  Deliver(1, 1);
  EXPECT_EQ(pool_->num_slots(), 2);
}

TEST_F(ChannelTest, AMessageThatCannotBeSentLosesTheClient) {
  const auto lost = std::make_shared<FakeClient>();
  lost->is_lost = true;
  // The welcome, as it comes and later.
  channel_.SetReady({.credits = kCredits});
  EXPECT_TRUE(channel_.Connect(lost).ok());
  EXPECT_FALSE(channel_.has_client());
  channel_.SetNotReady();
  ASSERT_TRUE(channel_.Connect(lost).ok());
  channel_.SetReady({.credits = kCredits});
  EXPECT_FALSE(channel_.has_client());
  // A batch, with what was held.
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  client_->is_lost = true;
  Deliver(1, 1);
  EXPECT_FALSE(channel_.has_client());
  EXPECT_EQ(pool_->num_slots(), 0);
  // The end.
  client_->is_lost = false;
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1).ok());
  client_->is_lost = true;
  channel_.EndPass(channel_.open_pass()->number);
  EXPECT_FALSE(channel_.has_client());
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
}

TEST_F(ChannelTest, WhoAsksForNothingIsAwayAfterAWhile) {
  Begin();
  clock_.Advance(Channel::kPatienceSeconds - 1);
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
  clock_.Advance(1);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  EXPECT_FALSE(channel_.ClientWaits());
  ASSERT_TRUE(Open(1).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  EXPECT_TRUE(channel_.ClientWaits());
  // Time in which batches are made for it does not count.
  clock_.Advance(100);
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  channel_.EndPass(1);
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
}

TEST_F(ChannelTest, WhoHoldsAllItMayIsAwayAfterAWhile) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  DeliverAll(1);
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  EXPECT_TRUE(channel_.AwaitCredit(1, {}));
  EXPECT_EQ(demand(), Channel::Demand::kPass);
}

// Else its job would be tried again and again.
TEST_F(ChannelTest, WhoHoldsAllItMayWaitsForNothingWhileTheJobDoesNotRun) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  DeliverAll(1);
  clock_.Advance(Channel::kPatienceSeconds);
  channel_.SetNotReady();
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  EXPECT_FALSE(channel_.ClientWaits());
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  EXPECT_TRUE(channel_.ClientWaits());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  EXPECT_EQ(pass_->next_batch, kCredits);
}

TEST_F(ChannelTest, LongStepsHaveThreeOfThem) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  DeliverAll(1);
  for (size_t step = 0; step < 3; ++step) {
    clock_.Advance(8);
    ASSERT_TRUE(channel_.Release(client_->slots[step]).ok());
    Deliver(1, kCredits + static_cast<int64_t>(step));
  }
  clock_.Advance(3 * 8 - 1);
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
  clock_.Advance(1);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
}

// Otherwise a client that was away once could keep others waiting for three
// times as long.
TEST_F(ChannelTest, TimeAwayIsNoStep) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  ASSERT_TRUE(channel_.Release({client_->slots[0][0]}).ok());
  clock_.Advance(3600);
  ASSERT_TRUE(channel_.Release({client_->slots[0][1]}).ok());
  DeliverAll(1);
  clock_.Advance(3 * Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
}

TEST_F(ChannelTest, TheTimeBetweenTwoClientsIsNoStep) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  channel_.Disconnect(*client_);
  clock_.Advance(8);
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1).ok());
  const uint64_t pass = channel_.open_pass()->number;
  Deliver(pass, 0);
  ASSERT_TRUE(channel_.Release(client_->slots[1]).ok());
  DeliverAll(pass);
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
}

TEST_F(ChannelTest, WhoYieldsIsAwayAtOnceUnlessBatchesAreWanted) {
  Begin();
  channel_.Yield();
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  ASSERT_TRUE(Open(1).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  channel_.Yield();
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  DeliverAll(1);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  // The clock stands still.
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  // What one client has said is not said by the next.
  channel_.Disconnect(*client_);
  ASSERT_TRUE(channel_.Connect(client_).ok());
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
}

// Clients that have yet to hear of the data cannot ask for a pass.
TEST_F(ChannelTest, AClientWaitsForItsFirstWelcome) {
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  EXPECT_FALSE(channel_.ClientWaits());
  ASSERT_TRUE(channel_.Connect(client_).ok());
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kNothing);
  EXPECT_TRUE(channel_.ClientWaits());
  channel_.SetReady({.credits = kCredits});
  EXPECT_FALSE(channel_.ClientWaits());
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  // It asks, later, by what it knows.
  channel_.SetNotReady();
  EXPECT_FALSE(channel_.ClientWaits());
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  channel_.Disconnect(*client_);
  ASSERT_TRUE(channel_.Connect(client_).ok());
  EXPECT_TRUE(channel_.ClientWaits());
}

TEST_F(ChannelTest, ByeEndsAllDemand) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  Deliver(1, 0);
  channel_.Bye();
  EXPECT_EQ(demand(), Channel::Demand::kDone);
  EXPECT_TRUE(channel_.ClientWaits());
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  channel_.Disconnect(*client_);
  EXPECT_EQ(demand(), Channel::Demand::kDone);
}

TEST_F(ChannelTest, AnEndIsToldOnceAndLast) {
  Begin();
  ASSERT_TRUE(Open(1).ok());
  channel_.End(absl::CancelledError("was cancelled"));
  channel_.End(absl::InternalError("another"));
  EXPECT_THAT(client_->heard, ElementsAre("welcome 2", "error: was cancelled"));
  EXPECT_FALSE(channel_.AwaitCredit(1, {}));
  EXPECT_TRUE(channel_.has_client()) << "it may still read what it holds";
  channel_.Disconnect(*client_);
  EXPECT_TRUE(absl::IsFailedPrecondition(channel_.Connect(client_)));
}

TEST_F(ChannelTest, AnEndAsWishedIsNoError) {
  Begin();
  channel_.End(absl::OkStatus());
  EXPECT_THAT(client_->heard, ElementsAre("welcome 2"));
}

TEST_F(ChannelTest, AReleaseEndsTheWaitForACredit) {
  EXPECT_TRUE(AwaitCreditWhile(
      [&] { EXPECT_TRUE(channel_.Release(client_->slots[0]).ok()); }));
}

TEST_F(ChannelTest, AStopEndsTheWaitForACredit) {
  std::stop_source stop;
  EXPECT_FALSE(
      AwaitCreditWhile([&] { stop.request_stop(); }, stop.get_token()));
}

TEST_F(ChannelTest, AClosedPassEndsTheWaitForACredit) {
  EXPECT_FALSE(AwaitCreditWhile([&] { channel_.Close(1); }));
}

TEST_F(ChannelTest, ALostClientEndsTheWaitForACredit) {
  EXPECT_FALSE(AwaitCreditWhile([&] { channel_.Disconnect(*client_); }));
}

TEST_F(ChannelTest, ByeEndsTheWaitForACredit) {
  EXPECT_FALSE(AwaitCreditWhile([&] { channel_.Bye(); }));
}

TEST_F(ChannelTest, AnotherPassEndsTheWaitForACredit) {
  EXPECT_FALSE(AwaitCreditWhile([&] { EXPECT_TRUE(Open(2).ok()); }));
}

TEST_F(ChannelTest, YieldEndsTheWaitForACredit) {
  EXPECT_FALSE(AwaitCreditWhile([&] { channel_.Yield(); }));
}

TEST_F(ChannelTest, TheJobsEndEndsTheWaitForACredit) {
  EXPECT_FALSE(AwaitCreditWhile([&] { channel_.End(absl::OkStatus()); }));
}

TEST_F(ChannelTest, RequestsWaitUntilTheirBatchesAreDelivered) {
  Begin();
  ASSERT_TRUE(Open(1, Split::kRequests, 5).ok());
  EXPECT_EQ(Asked(1, 5), "none");
  ASSERT_TRUE(channel_.Request(1, {7, 8}, /*goes_on=*/false).ok());
  ASSERT_TRUE(channel_.Request(1, {3, 4}, /*goes_on=*/true).ok());
  EXPECT_EQ(Asked(1, 6), "none");
  ASSERT_TRUE(channel_.Request(1, {2}, /*goes_on=*/false).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  EXPECT_EQ(pass_->end_batch, 7);
  Deliver(1, 5);
  EXPECT_EQ(Asked(1, 6), "3,4,2");
  EXPECT_EQ(Asked(1, 6), "3,4,2") << "another run of the job asks again";
  // Of another pass, or none.
  EXPECT_EQ(Asked(2, 6), "none");
  ASSERT_TRUE(Open(2, Split::kRequests).ok());
  EXPECT_EQ(Asked(2, 0), "none");
  ASSERT_TRUE(channel_.Request(1, {7}, /*goes_on=*/false).ok()) << "too late";
  EXPECT_EQ(Asked(2, 0), "none");
}

TEST_F(ChannelTest, ARequestWakesTheJobThatWaitsForIt) {
  EXPECT_TRUE(AwaitRequestWhile(
      [&] { EXPECT_TRUE(channel_.Request(1, {7}, /*goes_on=*/false).ok()); }));
}

TEST_F(ChannelTest, AStopEndsTheWaitForARequest) {
  std::stop_source stop;
  EXPECT_FALSE(
      AwaitRequestWhile([&] { stop.request_stop(); }, stop.get_token()));
}

TEST_F(ChannelTest, AClosedPassEndsTheWaitForARequest) {
  EXPECT_FALSE(AwaitRequestWhile([&] { channel_.Close(1); }));
}

TEST_F(ChannelTest, ALostClientEndsTheWaitForARequest) {
  EXPECT_FALSE(AwaitRequestWhile([&] { channel_.Disconnect(*client_); }));
}

TEST_F(ChannelTest, YieldEndsTheWaitForARequest) {
  EXPECT_FALSE(AwaitRequestWhile([&] { channel_.Yield(); }));
}

TEST_F(ChannelTest, WhoAsksForNothingInAPassOfRequestsIsAwayAfterAWhile) {
  Begin();
  ASSERT_TRUE(Open(1, Split::kRequests).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass);
  EXPECT_EQ(pass_->end_batch, pass_->next_batch);
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  EXPECT_FALSE(channel_.ClientWaits());
  EXPECT_FALSE(channel_.AwaitRequest(1, 0, 1e9, {}).has_value());
  ASSERT_TRUE(channel_.Request(1, {7}, /*goes_on=*/false).ok());
  EXPECT_TRUE(channel_.ClientWaits());
  clock_.Advance(Channel::kPatienceSeconds);
  EXPECT_EQ(demand(), Channel::Demand::kPass) << "it waits for a batch";
  Deliver(1, 0);
  channel_.Yield();
  EXPECT_EQ(demand(), Channel::Demand::kAway);
  ASSERT_TRUE(channel_.Request(1, {7}, /*goes_on=*/false).ok());
  Deliver(1, 1);
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  EXPECT_EQ(demand(), Channel::Demand::kPass) << "it has asked since";
}

TEST_F(ChannelTest, SeedsThatWaitAreBounded) {
  Begin();
  ASSERT_TRUE(Open(1, Split::kRequests).ok());
  constexpr int64_t kMost = Channel::kMostRequestedBatches;
  for (int64_t i = 0; i < kMost; ++i) {
    ASSERT_TRUE(channel_.Request(1, {1, 2, 3, 4}, /*goes_on=*/false).ok());
  }
  ASSERT_TRUE(channel_.Request(1, {5}, /*goes_on=*/false).ok());
  EXPECT_EQ(Asked(1, kMost - 1), "1,2,3,4");
  EXPECT_EQ(Asked(1, kMost), "request 16: 16 others wait for their batches");
}

TEST_F(ChannelTest, RequestsAreBounded) {
  channel_.SetReady({.credits = kCredits, .batch_size = 2 * kBatchSize});
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1, Split::kRequests).ok());
  // Seeds beyond a batch's are not kept, but for one that tells.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(channel_.Request(1, {1, 2, 3}, /*goes_on=*/i < 2).ok());
  }
  EXPECT_EQ(Asked(1, 0), "1,2,3,1,2,3,1,2,3");
  for (size_t i = 1; i < Channel::kMostRequests + 5; ++i) {
    ASSERT_TRUE(channel_.Request(1, {i}, /*goes_on=*/false).ok());
  }
  constexpr auto kMost = static_cast<int64_t>(Channel::kMostRequests);
  EXPECT_EQ(Asked(1, kMost - 1), "63");
  EXPECT_EQ(Asked(1, kMost), "request 64: 64 others wait for their batches");
  EXPECT_EQ(Asked(1, kMost + 1), "none");
  Deliver(1, 0);
  ASSERT_TRUE(channel_.Request(1, {1}, /*goes_on=*/false).ok());
  EXPECT_EQ(Asked(1, kMost + 1), "none") << "the pass ends before it";
}

TEST_F(ChannelTest, RequestsThatAreFaultsOfTheClientAreRefused) {
  ASSERT_TRUE(channel_.Connect(client_).ok());
  ASSERT_TRUE(Open(1, Split::kRequests).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(channel_.Request(1, {1}, /*goes_on=*/false)));
  channel_.SetReady({.credits = kCredits, .batch_size = kBatchSize});
  EXPECT_TRUE(
      absl::IsInvalidArgument(channel_.Request(2, {1}, /*goes_on=*/false)));
  ASSERT_TRUE(Open(3).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(channel_.Request(3, {1}, /*goes_on=*/false)));
}

TEST_F(ChannelTest, SignsGoToTheJobWhileItRunsAndToItsQueueOtherwise) {
  ASSERT_TRUE(channel_.Connect(client_).ok());
  EXPECT_EQ(wakes_, 1);
  channel_.SetReady({.credits = kCredits});
  int changes = 0;
  channel_.SetOnChange([&] { ++changes; });
  ASSERT_TRUE(Open(1).ok());
  DeliverAll(1);
  ASSERT_TRUE(channel_.Release(client_->slots[0]).ok());
  channel_.Close(1);
  channel_.Yield();
  channel_.Bye();
  ASSERT_TRUE(channel_.AddEpoch({.epoch = 1}).ok());
  channel_.Disconnect(*client_);
  EXPECT_EQ(changes, 7);
  EXPECT_EQ(wakes_, 1);
  channel_.SetNotReady();
  ASSERT_TRUE(channel_.Connect(client_).ok());
  EXPECT_EQ(changes, 7);
  EXPECT_EQ(wakes_, 2);
  EXPECT_THAT(client_->heard, SizeIs(3)) << "no welcome before it runs again";
}

TEST_F(ChannelTest, MissedTimeIsCountedWithoutAClient) {
  clock_.Advance(5);
  EXPECT_EQ(channel_.seconds_without_client(), 5);
  Begin();
  clock_.Advance(5);
  EXPECT_EQ(channel_.seconds_without_client(), 0);
  channel_.Disconnect(*client_);
  clock_.Advance(3);
  EXPECT_EQ(channel_.seconds_without_client(), 3);
}

TEST_F(ChannelTest, EpochsAreTakenOnceAndBounded) {
  for (size_t i = 1; i <= Channel::kMostEpochs; ++i) {
    ASSERT_TRUE(channel_.AddEpoch({.epoch = static_cast<uint32_t>(i)}).ok());
  }
  EXPECT_TRUE(
      absl::IsResourceExhausted(channel_.AddEpoch({.epoch = 1'000'000})));
  const std::vector<ReportedEpoch> epochs = channel_.TakeEpochs();
  ASSERT_THAT(epochs, SizeIs(Channel::kMostEpochs));
  EXPECT_EQ(epochs.back().epoch, Channel::kMostEpochs);
  EXPECT_THAT(channel_.TakeEpochs(), IsEmpty());
  EXPECT_TRUE(channel_.AddEpoch({.epoch = 2}).ok());
}

TEST_F(ChannelTest, SecondsAndPassesAddUp) {
  clock_.Advance(10);
  channel_.AddSeconds({.wait = 1, .script = 2, .copies = 3});
  clock_.Advance(10);
  channel_.AddSeconds({.wait = 4, .script = -5, .copies = -6});
  EXPECT_EQ(channel_.seconds().wait, 5);
  EXPECT_EQ(channel_.seconds().script, 2);
  EXPECT_EQ(channel_.seconds().copies, 3);
  // No more than there can have been.
  clock_.Advance(1);
  channel_.AddSeconds({.wait = 1e308, .script = 1e308, .copies = INT64_MAX});
  EXPECT_EQ(channel_.seconds().wait, 6);
  EXPECT_EQ(channel_.seconds().script, 3);
  const int64_t copies = channel_.seconds().copies;
  channel_.AddSeconds({.copies = INT64_MAX});
  EXPECT_EQ(channel_.seconds().copies, copies);
  strategy::PassReport report;
  report.batches = 6;
  report.stages = {{.name = "read"}};
  report.bytes_read = 100;
  channel_.AddPass(Split::kTrain, report);
  channel_.AddPass(Split::kTrain, {});
  channel_.AddPass(Split::kTrain, report);
  channel_.AddPass(Split::kValid, report);
  EXPECT_EQ(channel_.passes(Split::kTrain).passes, 3);
  EXPECT_EQ(channel_.passes(Split::kTrain).sum.bytes_read, 200);
  EXPECT_EQ(channel_.passes(Split::kTrain).sum.batches, 12);
  EXPECT_EQ(channel_.passes(Split::kValid).passes, 1);
  EXPECT_EQ(channel_.passes(Split::kTest).passes, 0);
}

// What the job delivers is released by another thread.
TEST_F(ChannelTest, BothSidesWorkAtOnce) {
  constexpr int64_t kBatches = 500;
  absl::Mutex mutex;
  absl::CondVar changed;
  std::vector<std::vector<uint64_t>> delivered;
  client_->on_batch = [&](std::vector<uint64_t> slots) {
    absl::MutexLock lock(&mutex);
    delivered.push_back(std::move(slots));
    changed.Signal();
  };
  Begin();
  ASSERT_TRUE(Open(1).ok());
  std::jthread job([&] {
    for (int64_t i = 0; i < kBatches; ++i) {
      ASSERT_TRUE(channel_.AwaitCredit(1, {}));
      Deliver(1, i);
    }
    channel_.EndPass(1);
  });
  for (size_t released = 0; released < kBatches; ++released) {
    std::vector<uint64_t> slots;
    {
      absl::MutexLock lock(&mutex);
      while (delivered.size() <= released) changed.Wait(&mutex);
      slots = delivered[released];
    }
    ASSERT_TRUE(channel_.Release(slots).ok());
  }
  job.join();
  EXPECT_EQ(pool_->lent(), 0);
  EXPECT_LE(pool_->num_slots(), 2 * (kCredits + 1));
  EXPECT_EQ(client_->heard.back(), "end 1 after 500");
}

}  // namespace
}  // namespace hearth::feed
