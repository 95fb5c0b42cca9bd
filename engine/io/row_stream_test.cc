#include "engine/io/row_stream.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "engine/io/faulty_device.h"
#include "engine/io/memory_device.h"
#include "engine/io/read_queues.h"
#include "engine/io/test_bytes.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

const RowLayout kLayout = {
    .first_offset = 128, .row_bytes = 300, .num_rows = 3000};

// A list of rows, and which of them have arrived.
struct List {
  explicit List(std::vector<int64_t> wanted)
      : rows(std::move(wanted)), arrivals(rows.size()) {}

  RowStream::Arrived Arrived() {
    return [this](size_t position, const std::byte* row) {
      ++arrivals[position];
      right &= AreTestBytes(kLayout.RowOffset(rows[position]),
                            {row, kLayout.row_bytes});
    };
  }

  bool IsWhole() const {
    return right && std::count(arrivals.begin(), arrivals.end(), 1) ==
                        static_cast<ptrdiff_t>(rows.size());
  }

  std::vector<int64_t> rows;
  std::vector<int> arrivals;
  bool right = true;
  ReadTally tally;
};

class RowStreamTest : public testing::Test {
 protected:
  RowStreamTest() : base_(NewMemoryDevice(TestBytes(1'000'000))) {}

  void SetUp() override {
    auto queues = ReadQueues::Create({.kind = ReadQueueKind::kThreads});
    ASSERT_TRUE(queues.ok()) << queues.status();
    queues_ = *std::move(queues);
    auto queue = queues_->Take(4);
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *std::move(queue);
    auto stream = RowStream::Create(device_, kLayout, *queue_, {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  void TearDown() override { stream_.reset(); }

  // Ten lists, of no rows up to many, each read by several reads.
  static std::vector<List> SomeLists() {
    RandomStream random(1, RandomPurpose::kGenerator);
    std::vector<List> lists;
    for (size_t i = 0; i < 10; ++i) {
      std::vector<int64_t> rows(i * 30);
      for (int64_t& row : rows) {
        row = static_cast<int64_t>(random.Below(kLayout.num_rows));
      }
      lists.emplace_back(std::move(rows));
    }
    return lists;
  }

  absl::Status Add(List& list) {
    return stream_->Add(list.rows, list.Arrived(), list.tally);
  }

  std::unique_ptr<BlockDevice> base_;
  FaultyDevice device_{*base_};
  std::unique_ptr<ReadQueues> queues_;
  ReadQueues::Handle queue_;
  std::unique_ptr<RowStream> stream_;
};

TEST_F(RowStreamTest, ListsAreDoneInTheirOrder) {
  std::vector<List> lists = SomeLists();
  for (List& list : lists) ASSERT_TRUE(Add(list).ok());
  EXPECT_EQ(stream_->num_lists(), lists.size());
  for (const List& list : lists) {
    while (!stream_->TakeOff()) ASSERT_TRUE(stream_->Advance().ok());
    EXPECT_TRUE(list.IsWhole());
    EXPECT_EQ(list.tally.rows, static_cast<int64_t>(list.rows.size()));
  }
  EXPECT_EQ(stream_->outstanding(), 0);
  EXPECT_FALSE(stream_->TakeOff());
}

TEST_F(RowStreamTest, AnotherListReadsWhatItWouldAlone) {
  std::vector<List> together = SomeLists();
  for (List& list : together) ASSERT_TRUE(Add(list).ok());
  while (stream_->outstanding() > 0) ASSERT_TRUE(stream_->Advance().ok());
  for (size_t i = 0; i < together.size(); ++i) ASSERT_TRUE(stream_->TakeOff());
  for (List& list : together) {
    List alone(list.rows);
    ASSERT_TRUE(Add(alone).ok());
    while (!stream_->TakeOff()) ASSERT_TRUE(stream_->Advance().ok());
    EXPECT_EQ(alone.tally.requests, list.tally.requests);
    EXPECT_EQ(alone.tally.bytes_read, list.tally.bytes_read);
  }
}

TEST_F(RowStreamTest, TheQueueIsFullFromOneListToTheNext) {
  // A page each, far from each other.
  std::vector<List> lists;
  for (int64_t i = 0; i < 3; ++i) {
    lists.emplace_back(std::vector<int64_t>{i * 600, i * 600 + 300});
  }
  device_.Inject({.effect = DeviceFault::Effect::kHold});
  for (List& list : lists) ASSERT_TRUE(Add(list).ok());
  EXPECT_EQ(stream_->outstanding(), 6);
  // Four are in flight, of the first two lists; one of them is held.
  ASSERT_TRUE(stream_->Advance().ok());
  device_.WaitUntilHeld(1);
  while (stream_->outstanding() > 1) ASSERT_TRUE(stream_->Advance().ok());
  EXPECT_NE(lists[0].IsWhole(), lists[1].IsWhole());
  EXPECT_TRUE(lists[2].IsWhole()) << "it is read while another waits";
  EXPECT_EQ(stream_->TakeOff(), lists[0].IsWhole());
  EXPECT_FALSE(stream_->TakeOff()) << "the list before the last is not done";
  device_.Release();
  ASSERT_TRUE(stream_->Advance().ok());
  for (const List& list : lists) EXPECT_TRUE(list.IsWhole());
  while (stream_->num_lists() > 0) ASSERT_TRUE(stream_->TakeOff());
}

TEST_F(RowStreamTest, ListsOfRowsThatAreNotThereAreNoLists) {
  List good({1, 2, 3});
  List bad({1, kLayout.num_rows});
  ASSERT_TRUE(Add(good).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Add(bad)));
  EXPECT_EQ(stream_->num_lists(), 1u);
  while (!stream_->TakeOff()) ASSERT_TRUE(stream_->Advance().ok());
  EXPECT_TRUE(good.IsWhole());
}

TEST_F(RowStreamTest, AfterAnErrorAllListsAreDropped) {
  std::vector<List> lists = SomeLists();
  device_.Inject({.nth = 3, .for_good = true});
  for (List& list : lists) ASSERT_TRUE(Add(list).ok());
  absl::Status status;
  while (status.ok()) status = stream_->Advance();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  ASSERT_TRUE(stream_->Abandon().ok());
  EXPECT_EQ(stream_->num_lists(), 0u);
  EXPECT_EQ(stream_->outstanding(), 0);
  EXPECT_EQ(queue_->in_flight(), 0u);
  // It lives.
  device_.Inject({.nth = INT64_MAX});
  List next({5, 1000, 7});
  ASSERT_TRUE(Add(next).ok());
  while (!stream_->TakeOff()) ASSERT_TRUE(stream_->Advance().ok());
  EXPECT_TRUE(next.IsWhole());
}

}  // namespace
}  // namespace hearth::io
