#include "engine/io/row_reader.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
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
  // The stream is still usable.
  device_.Inject({.nth = INT64_MAX});
  List next({5, 1000, 7});
  ASSERT_TRUE(Add(next).ok());
  while (!stream_->TakeOff()) ASSERT_TRUE(stream_->Advance().ok());
  EXPECT_TRUE(next.IsWhole());
}

enum class Disk { kMemory, kFile, kBufferedFile };

void Ignore(size_t, const std::byte*) {}

/// Reads rows and expects each position to get its row, once.
void ExpectRows(RowReader& reader, const RowLayout& layout,
                const std::vector<int64_t>& rows, ReadTally& tally) {
  std::vector<int> arrivals(rows.size());
  bool right = true;
  const absl::Status status = reader.Read(
      rows,
      [&](size_t position, const std::byte* row) {
        ++arrivals[position];
        right &= AreTestBytes(layout.RowOffset(rows[position]),
                              {row, layout.row_bytes});
      },
      std::stop_token(), tally);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(right);
  ASSERT_EQ(std::count(arrivals.begin(), arrivals.end(), 1),
            static_cast<ptrdiff_t>(rows.size()));
}

std::vector<int64_t> RandomRows(RandomStream& random, size_t count,
                                const RowLayout& layout) {
  std::vector<int64_t> rows = {layout.num_rows - 1, 0, layout.num_rows - 1};
  while (rows.size() < count) {
    rows.push_back(static_cast<int64_t>(random.Below(layout.num_rows)));
  }
  rows.resize(count);
  return rows;
}

class RowReaderTest
    : public testing::TestWithParam<std::tuple<Disk, ReadQueueKind>> {
 protected:
  static constexpr size_t kFileBytes = 1'000'000;

  void SetUp() override {
    auto queues = ReadQueues::Create({.kind = std::get<1>(GetParam())});
    if (absl::IsUnimplemented(queues.status()) ||
        absl::IsPermissionDenied(queues.status())) {
      GTEST_SKIP() << "no io_uring here: " << queues.status();
    }
    ASSERT_TRUE(queues.ok()) << queues.status();
    queues_ = *std::move(queues);
    const Disk disk = std::get<0>(GetParam());
    if (disk == Disk::kMemory) {
      device_ = NewMemoryDevice(TestBytes(kFileBytes));
      return;
    }
    WriteTestBytes(scratch_.Path("f"), kFileBytes);
    auto device = FileSystem::Posix().OpenBlockDevice(
        scratch_.Path("f"), {.buffered = disk == Disk::kBufferedFile});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  /// As many rows as the file holds from there on.
  static RowLayout Fill(uint64_t first_offset, uint32_t row_bytes) {
    return {first_offset, row_bytes,
            static_cast<int64_t>((kFileBytes - first_offset) / row_bytes)};
  }

  std::unique_ptr<ReadQueues> queues_;
  ScratchDirectory scratch_;
  std::unique_ptr<BlockDevice> device_;
};

TEST_P(RowReaderTest, DeliversEveryRowOfAnySizeFromAnyOffset) {
  const ReadQueues::Handle queue = *queues_->Take(16);
  RandomStream random(1, RandomPurpose::kGenerator);
  for (const uint32_t row_bytes : {4, 100, 512, 516, 4096, 16384}) {
    for (const uint64_t first_offset : {0, 80, 128, 4096, 99'999}) {
      SCOPED_TRACE(testing::Message()
                   << row_bytes << " bytes from " << first_offset);
      const RowLayout layout = Fill(first_offset, row_bytes);
      auto reader = RowReader::Create(*device_, layout, *queue, {});
      ASSERT_TRUE(reader.ok()) << reader.status();
      for (const size_t count : {0, 1, 2, 40, 300}) {
        ReadTally tally;
        ASSERT_NO_FATAL_FAILURE(ExpectRows(
            **reader, layout, RandomRows(random, count, layout), tally));
        EXPECT_EQ(tally.rows, static_cast<int64_t>(count));
      }
    }
  }
}

TEST_P(RowReaderTest, WorksAtEveryDepthAndWithTheLeastStaging) {
  const RowLayout layout = Fill(128, 1000);
  const uint64_t least = RowStream::MinStagingBytes(*device_, layout);
  RandomStream random(2, RandomPurpose::kGenerator);
  for (const size_t depth : {1, 2, 33, 128}) {
    const ReadQueues::Handle queue = *queues_->Take(depth);
    for (const uint64_t staging : {least, least + 1, 3 * least, 64 * least}) {
      SCOPED_TRACE(testing::Message() << depth << " deep, " << staging);
      auto reader = RowReader::Create(*device_, layout, *queue,
                                      {.staging_bytes = staging});
      ASSERT_TRUE(reader.ok()) << reader.status();
      ReadTally tally;
      ASSERT_NO_FATAL_FAILURE(
          ExpectRows(**reader, layout, RandomRows(random, 200, layout), tally));
    }
    auto reader = RowReader::Create(*device_, layout, *queue,
                                    {.staging_bytes = least - 1});
    EXPECT_TRUE(absl::IsInvalidArgument(reader.status())) << reader.status();
  }
}

TEST_P(RowReaderTest, TalliesWhatItTook) {
  const RowLayout layout = Fill(0, 512);
  const ReadQueues::Handle queue = *queues_->Take(4);
  auto reader = RowReader::Create(*device_, layout, *queue,
                                  {.cost = {.request_bytes = 1024}});
  ASSERT_TRUE(reader.ok()) << reader.status();
  ReadTally tally;
  // Two neighbors, one with a gap of one row, one far away and twice.
  ASSERT_NO_FATAL_FAILURE(
      ExpectRows(**reader, layout, {3, 1000, 1, 0, 1000}, tally));
  EXPECT_EQ(tally.rows, 5);
  EXPECT_EQ(tally.payload_bytes, 4 * 512);
  EXPECT_EQ(tally.bytes_read, 5 * 512);
  EXPECT_EQ(tally.requests, 2);
  EXPECT_GE(tally.wait_seconds, 0);
  ASSERT_NO_FATAL_FAILURE(ExpectRows(**reader, layout, {7}, tally));
  EXPECT_EQ(tally.rows, 6);  // Read adds to the tally.
  EXPECT_EQ(queues_->statistics().reads, tally.requests);
  EXPECT_EQ(queues_->statistics().bytes, tally.bytes_read);
}

TEST_P(RowReaderTest, SeveralReadersShareAQueueInTurn) {
  const ReadQueues::Handle queue = *queues_->Take(8);
  const RowLayout wide = Fill(0, 4096), narrow = Fill(80, 64);
  auto first = RowReader::Create(*device_, wide, *queue, {});
  auto second = RowReader::Create(*device_, narrow, *queue, {});
  ASSERT_TRUE(first.ok() && second.ok());
  RandomStream random(3, RandomPurpose::kGenerator);
  ReadTally tally;
  for (int i = 0; i < 5; ++i) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectRows(**first, wide, RandomRows(random, 50, wide), tally));
    ASSERT_NO_FATAL_FAILURE(
        ExpectRows(**second, narrow, RandomRows(random, 50, narrow), tally));
  }
  first->reset();
  ASSERT_NO_FATAL_FAILURE(
      ExpectRows(**second, narrow, RandomRows(random, 50, narrow), tally));
}

TEST_P(RowReaderTest, RefusesRowsThatAreNotThereBeforeItReads) {
  const RowLayout layout = Fill(0, 512);
  const ReadQueues::Handle queue = *queues_->Take(4);
  auto reader = RowReader::Create(*device_, layout, *queue, {});
  ReadTally tally;
  for (const int64_t row : {int64_t{-1}, layout.num_rows}) {
    const absl::Status status =
        (*reader)->Read({0, row}, Ignore, std::stop_token(), tally);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_EQ(tally.requests, 0);
}

TEST_P(RowReaderTest, RefusesLayoutsThatTheFileDoesNotHold) {
  const ReadQueues::Handle queue = *queues_->Take(4);
  const auto create = [&](const RowLayout& layout) {
    return RowReader::Create(*device_, layout, *queue, {}).status();
  };
  EXPECT_TRUE(create({0, 1000, 1000}).ok());
  EXPECT_TRUE(create({kFileBytes, 1000, 0}).ok());
  EXPECT_TRUE(absl::IsDataLoss(create({1, 1000, 1000})));
  EXPECT_TRUE(absl::IsDataLoss(create({kFileBytes + 1, 1, 1})));
  EXPECT_TRUE(absl::IsDataLoss(create({0, 16384, INT64_MAX})));
  EXPECT_TRUE(absl::IsInvalidArgument(create({0, 0, 10})));
  EXPECT_TRUE(absl::IsInvalidArgument(create({0, 4, -1})));
}

/// Knows the bytes of the file; finds fault with one row for the first so many
/// times.
class CountingCheck final : public RowCheck {
 public:
  CountingCheck(const RowLayout& layout, int64_t bad_row, int times)
      : layout_(layout), bad_row_(bad_row), times_(times) {}

  bool Matches(int64_t row, const std::byte* bytes) const override {
    EXPECT_TRUE(
        AreTestBytes(layout_.RowOffset(row), {bytes, layout_.row_bytes}));
    ++checked_;
    return row != bad_row_ || times_-- <= 0;
  }

  int checked() const { return checked_; }

 private:
  const RowLayout layout_;
  const int64_t bad_row_;
  mutable int times_;
  mutable int checked_ = 0;
};

TEST_P(RowReaderTest, ReadsRowsThatFailTheCheckOnceMore) {
  const RowLayout layout{
      .first_offset = 128, .row_bytes = 300, .num_rows = 3000};
  RandomStream random(1, RandomPurpose::kGenerator);
  const std::vector<int64_t> rows = RandomRows(random, 500, layout);
  const std::set<int64_t> distinct(rows.begin(), rows.end());
  for (const int times : {0, 1, 2}) {
    SCOPED_TRACE(times);
    auto queue = queues_->Take(4);
    ASSERT_TRUE(queue.ok()) << queue.status();
    const CountingCheck check(layout, rows[77], times);
    const auto reader =
        RowReader::Create(*device_, layout, **queue, {.check = &check});
    ASSERT_TRUE(reader.ok()) << reader.status();
    ReadTally tally;
    if (times < 2) {
      ExpectRows(**reader, layout, rows, tally);
      EXPECT_GE(check.checked(), static_cast<int>(distinct.size()));
      continue;
    }
    int before = 0;
    const absl::Status status = (*reader)->Read(
        rows,
        [&](size_t position, const std::byte* /*row*/) {
          before += rows[position] == rows[77] ? 1 : 0;
        },
        std::stop_token(), tally);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(before, 0) << "handed out all the same";
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("row ", rows[77], " at byte ",
                                               layout.RowOffset(rows[77]))))
        << status;
    // The reader lives.
    ExpectRows(**reader, layout, rows, tally);
  }
}

TEST_P(RowReaderTest, StopsBetweenReadsWithNothingLeftInFlight) {
  const RowLayout layout = Fill(0, 4096);
  const ReadQueues::Handle queue = *queues_->Take(2);
  auto reader = RowReader::Create(
      *device_, layout, *queue,
      {.cost = {.request_bytes = 0, .max_request_bytes = 4096}});
  std::vector<int64_t> rows(200);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  std::stop_source stop;
  int arrived = 0;
  ReadTally tally;
  const absl::Status status = (*reader)->Read(
      rows,
      [&](size_t, const std::byte*) {
        if (++arrived == 10) stop.request_stop();
      },
      stop.get_token(), tally);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_GE(arrived, 10);
  EXPECT_LT(arrived, 20);
  EXPECT_EQ(queue->in_flight(), 0u);
  const absl::Status again =
      (*reader)->Read(rows, Ignore, stop.get_token(), tally);
  EXPECT_TRUE(absl::IsCancelled(again));
  ASSERT_NO_FATAL_FAILURE(ExpectRows(**reader, layout, {5, 6, 7}, tally));
}

TEST_P(RowReaderTest, AnErrorDrainsAndTheReaderLives) {
  const RowLayout layout = Fill(128, 512);
  const ReadQueues::Handle queue = *queues_->Take(8);
  FaultyDevice faulty(*device_);
  auto reader = RowReader::Create(
      faulty, layout, *queue,
      {.cost = {.request_bytes = 0, .max_request_bytes = 4096}});
  ASSERT_TRUE(reader.ok()) << reader.status();
  RandomStream random(4, RandomPurpose::kGenerator);
  const std::vector<int64_t> rows = RandomRows(random, 300, layout);
  for (const int64_t nth : {1, 2, 9, 50}) {
    faulty.Inject({.nth = nth, .error = EBADMSG});
    std::set<size_t> arrived;
    ReadTally tally;
    const absl::Status status = (*reader)->Read(
        rows,
        [&](size_t position, const std::byte* row) {
          EXPECT_TRUE(arrived.insert(position).second);
          EXPECT_TRUE(
              AreTestBytes(layout.RowOffset(rows[position]), {row, 512}));
        },
        std::stop_token(), tally);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find(faulty.path()),
              std::string::npos);
    EXPECT_LT(arrived.size(), rows.size());
    EXPECT_EQ(tally.rows, static_cast<int64_t>(arrived.size()));
    EXPECT_EQ(queue->in_flight(), 0u);
    ASSERT_NO_FATAL_FAILURE(ExpectRows(**reader, layout, rows, tally));
  }
}

TEST_P(RowReaderTest, SurvivesEioOnceAndShortReads) {
  const RowLayout layout = Fill(128, 16384);
  const ReadQueues::Handle queue = *queues_->Take(4);
  FaultyDevice faulty(*device_);
  auto reader = RowReader::Create(faulty, layout, *queue, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  ReadTally tally;
  faulty.Inject({.nth = 2, .error = EIO});
  ASSERT_NO_FATAL_FAILURE(
      ExpectRows(**reader, layout, {0, 9, 5, 40, 59}, tally));
  faulty.Inject({.for_good = true,
                 .effect = DeviceFault::Effect::kShorten,
                 .bytes = 5000});
  ASSERT_NO_FATAL_FAILURE(
      ExpectRows(**reader, layout, {0, 9, 5, 40, 59}, tally));
}

std::string Describe(
    const testing::TestParamInfo<RowReaderTest::ParamType>& info) {
  constexpr const char* kDisks[] = {"Memory", "File", "BufferedFile"};
  const bool ring = std::get<1>(info.param) == ReadQueueKind::kIoUring;
  return std::string(kDisks[static_cast<int>(std::get<0>(info.param))]) +
         (ring ? "IoUring" : "Threads");
}

INSTANTIATE_TEST_SUITE_P(
    Devices, RowReaderTest,
    testing::Combine(
        testing::Values(Disk::kMemory, Disk::kFile, Disk::kBufferedFile),
        testing::Values(ReadQueueKind::kIoUring, ReadQueueKind::kThreads)),
    Describe);

TEST(RowReaderDrainTest, AStopWaitsForTheSlowRead) {
  const auto base = NewMemoryDevice(TestBytes(1 << 20));
  FaultyDevice slow(*base);
  const auto queues = *ReadQueues::Create({.kind = ReadQueueKind::kThreads});
  const ReadQueues::Handle queue = *queues->Take(4);
  const RowLayout layout{0, 4096, 256};
  auto reader = RowReader::Create(
      slow, layout, *queue,
      {.cost = {.request_bytes = 0, .max_request_bytes = 4096}});
  ASSERT_TRUE(reader.ok()) << reader.status();
  slow.Inject({.nth = 2, .effect = DeviceFault::Effect::kHold});
  std::stop_source stop;
  std::thread release([&] {
    slow.WaitUntilHeld(1);
    stop.request_stop();
    slow.Release();
  });
  std::vector<int64_t> rows(256);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  ReadTally tally;
  const absl::Status status =
      (*reader)->Read(rows, Ignore, stop.get_token(), tally);
  release.join();
  // Without the stop's being seen in time all rows may have arrived.
  EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  EXPECT_EQ(queue->in_flight(), 0u);
  EXPECT_EQ(queues->statistics().in_flight, 0);
}

TEST(RowReaderDrainTest, RowsArriveWhileOneReadIsSlow) {
  const auto base = NewMemoryDevice(TestBytes(1 << 20));
  FaultyDevice slow(*base);
  const auto queues = *ReadQueues::Create({.kind = ReadQueueKind::kThreads});
  const ReadQueues::Handle queue = *queues->Take(2);
  const RowLayout layout{0, 4096, 256};
  auto reader = RowReader::Create(
      slow, layout, *queue,
      {.cost = {.request_bytes = 0, .max_request_bytes = 4096}});
  ASSERT_TRUE(reader.ok()) << reader.status();
  slow.Inject({.nth = 1, .effect = DeviceFault::Effect::kHold});
  int arrived = 0;
  ReadTally tally;
  const absl::Status status = (*reader)->Read(
      {0, 1, 2, 3, 4, 5, 6, 7},
      [&](size_t, const std::byte*) {
        // Seven of eight arrive though one is held: else this never ends.
        if (++arrived == 7) slow.Release();
      },
      std::stop_token(), tally);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(arrived, 8);
}

}  // namespace

}  // namespace hearth::io
