#include "server/feeds/piece_sink.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/manual_clock.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "hearth/v1/feeds.pb.h"
#include "server/feeds/feed_session.h"

namespace hearth::server {
namespace {

constexpr int kCredits = 3;

// A session of a client over a stream.
class PieceSinkTest : public ::testing::Test {
 protected:
  PieceSinkTest() {
    auto sink = std::make_unique<PieceSink>([this] { ++wakes_; });
    sink_ = sink.get();
    session_ = std::make_shared<FeedSession>(
        std::move(sink), [this](const std::string&) { return channel_; });
    channel_->SetReady({.credits = kCredits});
    v1::FeedUp hello;
    hello.mutable_hello()->set_ticket("ticket");
    EXPECT_TRUE(session_->Receive(hello).ok());
    v1::FeedUp open;
    open.mutable_open()->set_pass(1);
    open.mutable_open()->set_split(v1::FEED_TRAIN);
    open.mutable_open()->set_layout(v1::FEED_LAYERS);
    EXPECT_TRUE(session_->Receive(open).ok());
  }
  ~PieceSinkTest() override { session_->Leave(); }

  // Gives the client a batch whose x has `rows` floats, all of them `value`,
  // and whose n_id has two numbers; returns its slots.
  std::vector<uint64_t> Deliver(int64_t rows, float value) {
    const feed::BatchArrays arrays = {
        .arrays = {{.name = "x",
                    .type = feed::Array::Type::kFloat32,
                    .shape = {rows, 1},
                    .in_rows = true},
                   {.name = "n_id", .shape = {2}, .offset = 64}}};
    const feed::OutgoingBatch batch = {
        .pass = 1,
        .number = delivered_++,
        .num_seeds = 1,
        .arrays = arrays,
        .rows = *pool_->TakeSlot(rows * sizeof(float)),
        .rest = *pool_->TakeSlot(128)};
    const std::vector<float> x(rows, value);
    std::memcpy(batch.rows->data(), x.data(), rows * sizeof(float));
    const std::vector<int64_t> ids = {7, static_cast<int64_t>(value)};
    std::memcpy(batch.rest->data() + 64, ids.data(), 2 * sizeof(int64_t));
    channel_->Deliver(batch);
    return {batch.rows->id(), batch.rest->id()};
  }

  void Release(const v1::FeedBatch& batch) {
    v1::FeedUp release;
    *release.mutable_release()->mutable_slots() = batch.slots();
    EXPECT_TRUE(session_->Receive(release).ok());
  }

  // Writes all that is there; the client puts pieces into its own slots, and
  // returns the batches.
  std::vector<v1::FeedBatch> Read() {
    std::vector<v1::FeedBatch> batches;
    v1::FeedDown message;
    while (sink_->Next(message)) {
      if (message.has_slot()) {
        slots_[message.slot().id()].assign(message.slot().bytes(), '\xee');
      }
      if (message.has_piece()) {
        const v1::FeedPiece& piece = message.piece();
        EXPECT_LE(piece.data().size(), PieceSink::kPieceBytes);
        piece_bytes_ += piece.data().size();
        slots_.at(piece.slot())
            .replace(piece.offset(), piece.data().size(), piece.data());
      }
      if (message.has_batch()) batches.push_back(message.batch());
    }
    return batches;
  }

  // Whether a batch that was read is that of Deliver.
  void ExpectIs(const v1::FeedBatch& batch, int64_t rows, float value) {
    std::vector<float> x(rows);
    const std::string& slot = slots_.at(batch.arrays(0).slot());
    std::memcpy(x.data(), slot.data(), rows * sizeof(float));
    EXPECT_EQ(x, std::vector<float>(rows, value));
    std::vector<int64_t> ids(2);
    const v1::FeedArray& n_id = batch.arrays(1);
    std::memcpy(ids.data(), slots_.at(n_id.slot()).data() + n_id.offset(),
                2 * sizeof(int64_t));
    EXPECT_EQ(ids, (std::vector<int64_t>{7, static_cast<int64_t>(value)}));
  }

  ManualClock clock_;
  const std::shared_ptr<feed::Channel> channel_ =
      std::make_shared<feed::Channel>(clock_);
  const std::shared_ptr<feed::SlotPool> pool_ = feed::SlotPool::Make(0);
  int wakes_ = 0;
  int64_t delivered_ = 0;
  PieceSink* sink_ = nullptr;
  std::shared_ptr<FeedSession> session_;
  // The client's.
  std::map<uint64_t, std::string> slots_;
  size_t piece_bytes_ = 0;
};

TEST_F(PieceSinkTest, BytesOfArraysComeBeforeTheirBatch) {
  Deliver(5, 1.5);
  const int before = wakes_;
  Deliver(3, 2.5);
  EXPECT_GT(wakes_, before);
  const std::vector<v1::FeedBatch> batches = Read();
  ASSERT_EQ(batches.size(), 2u);
  ExpectIs(batches[0], 5, 1.5);
  ExpectIs(batches[1], 3, 2.5);
  // Slots have whole pages.
  EXPECT_EQ(piece_bytes_, (5 + 3) * sizeof(float) + 4 * sizeof(int64_t));
}

TEST_F(PieceSinkTest, MuchComesInPieces) {
  const int64_t rows = 5 * PieceSink::kPieceBytes / sizeof(float) / 2 + 1;
  Deliver(rows, 0.5);
  const std::vector<v1::FeedBatch> batches = Read();
  ASSERT_EQ(batches.size(), 1u);
  ExpectIs(batches[0], rows, 0.5);
}

TEST_F(PieceSinkTest, ASlotIsWrittenAnewOnceTheClientHasReleasedIt) {
  for (int i = 0; i < 20; ++i) {
    Deliver(4, static_cast<float>(i));
    const std::vector<v1::FeedBatch> batches = Read();
    ASSERT_EQ(batches.size(), 1u);
    ExpectIs(batches[0], 4, static_cast<float>(i));
    Release(batches[0]);
  }
  EXPECT_EQ(slots_.size(), 2u);
}

// A slot that is released before it was written is lent to no other batch.
TEST_F(PieceSinkTest, ASlotIsKeptUntilItsBytesAreWritten) {
  const std::vector<uint64_t> slots = Deliver(4, 1);
  ASSERT_TRUE(channel_->Release(slots).ok());
  EXPECT_EQ(channel_->held_batches(), 0);
  EXPECT_EQ(pool_->lent(), 2);
  Deliver(4, 2);
  const std::vector<v1::FeedBatch> batches = Read();
  ASSERT_EQ(batches.size(), 2u);
  ExpectIs(batches[0], 4, 1);
  ExpectIs(batches[1], 4, 2);
}

// Whoever releases what has not come yet would have any number of batches
// kept.
TEST_F(PieceSinkTest, AClientThatDoesNotReadHasNoMoreThanItsCredits) {
  for (uint64_t i = 0; i <= kCredits; ++i) {
    ASSERT_TRUE(channel_->has_client());
    const std::vector<uint64_t> slots = Deliver(4, 1);
    // With the last one the client is lost.
    EXPECT_EQ(channel_->Release(slots).ok(), i < kCredits);
  }
  EXPECT_TRUE(sink_->is_lost());
  EXPECT_FALSE(channel_->has_client());
}

TEST_F(PieceSinkTest, AClientThatReadsNoEndsIsLost) {
  for (uint64_t pass = 2; !sink_->is_lost(); ++pass) {
    ASSERT_LE(pass, 2 * PieceSink::kMostMessages);
    v1::FeedUp open;
    open.mutable_open()->set_pass(pass);
    open.mutable_open()->set_split(v1::FEED_TEST);
    open.mutable_open()->set_layout(v1::FEED_LAYERS);
    ASSERT_TRUE(session_->Receive(open).ok());
    channel_->EndPass(pass);
  }
  EXPECT_FALSE(channel_->has_client());
}

TEST_F(PieceSinkTest, NothingFollowsAnError) {
  Read();
  EXPECT_FALSE(sink_->has_ended());
  channel_->End(absl::CancelledError("the job was cancelled"));
  EXPECT_FALSE(sink_->has_ended());
  v1::FeedDown message;
  ASSERT_TRUE(sink_->Next(message));
  EXPECT_EQ(message.error().message(), "the job was cancelled");
  EXPECT_TRUE(sink_->has_ended());
}

TEST_F(PieceSinkTest, OnceClosedItKeepsNothing) {
  Deliver(4, 1);
  sink_->Close();
  session_->Leave();
  EXPECT_EQ(pool_->lent(), 0);
  EXPECT_TRUE(Read().empty());
  EXPECT_TRUE(absl::IsCancelled(session_->Send(feed::Welcome())));
}

}  // namespace
}  // namespace hearth::server
