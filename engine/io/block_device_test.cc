#include "engine/io/block_device.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/io/test_bytes_fixture.h"
#include "gtest/gtest.h"

namespace hearth::io {

namespace {

TEST(MemoryDeviceTest, ReadsAsADiskWould) {
  const auto device = NewMemoryDevice(TestBytes(1300), 512, "here");
  EXPECT_EQ(device->size_bytes(), 1300u);
  EXPECT_EQ(device->alignment(), 512u);
  EXPECT_TRUE(device->direct());
  EXPECT_EQ(device->path(), "here");
  EXPECT_EQ(device->descriptor(), -1);
  AlignedMemory memory = NewTestMemory(2048);
  EXPECT_EQ(device->ReadOnce(512, memory.bytes().first(512)), 512);
  EXPECT_TRUE(AreTestBytes(512, memory.bytes().first(512)));
  EXPECT_EQ(device->ReadOnce(512, memory.bytes().first(1024)), 788);
  EXPECT_TRUE(AreTestBytes(512, memory.bytes().first(788)));
  EXPECT_EQ(memory.bytes()[788], std::byte{0xee});
  EXPECT_EQ(device->ReadOnce(1536, memory.bytes().first(512)), 0);
}

TEST(MemoryDeviceTest, RefusesWhatIsNotAligned) {
  const auto device = NewMemoryDevice(TestBytes(1300), 512);
  AlignedMemory memory = NewTestMemory(2048);
  EXPECT_EQ(device->ReadOnce(1, memory.bytes().first(512)), -EINVAL);
  EXPECT_EQ(device->ReadOnce(0, memory.bytes().first(100)), -EINVAL);
  EXPECT_EQ(device->ReadOnce(0, memory.bytes().subspan(8, 512)), -EINVAL);
}

TEST(MemoryDeviceTest, FilesInMemoryAreDevicesToo) {
  const auto files = NewMemoryFileSystem(TestBytes(1300));
  const auto direct = files->OpenBlockDevice("f", {});
  const auto buffered = files->OpenBlockDevice("f", {.buffered = true});
  ASSERT_TRUE(direct.ok() && buffered.ok());
  EXPECT_TRUE((*direct)->direct());
  EXPECT_FALSE((*buffered)->direct());
  std::byte bytes[3];
  EXPECT_EQ((*buffered)->ReadOnce(777, absl::MakeSpan(bytes)), 3);
  EXPECT_TRUE(AreTestBytes(777, bytes));
}

// Rows are filled with their number among the rows of all tables.
std::string Rows(size_t header, int64_t first, int64_t count, size_t bytes) {
  std::string file(header, '\xff');
  for (int64_t row = first; row < first + count; ++row) {
    file.append(bytes, static_cast<char>(row));
  }
  return file;
}

// Rows 0 .. 19 of 300 bytes, 20 .. 29 of 100 bytes, which are handed out with
// 200 bytes of zeros behind them, and 30 .. 99 of 300 bytes.
class JoinedDeviceTest : public testing::Test {
 protected:
  JoinedDeviceTest() {
    std::vector<std::unique_ptr<BlockDevice>> parts;
    parts.push_back(NewMemoryDevice(Rows(7, 0, 20, 300), 512, "first"));
    parts.push_back(NewMemoryDevice(Rows(64, 20, 10, 100), 512, "second"));
    parts.push_back(NewMemoryDevice(Rows(0, 30, 70, 300), 4096, "third"));
    device_ = NewJoinedDevice(std::move(parts));
    tables_ = {{.first_row = 0,
                .num_rows = 20,
                .first_offset = JoinedPartOffset(0) + 7,
                .row_bytes = 300},
               {.first_row = 20,
                .num_rows = 10,
                .first_offset = JoinedPartOffset(1) + 64,
                .row_bytes = 100,
                .convert =
                    [](const std::byte* stored, std::byte* row) {
                      std::memcpy(row, stored, 100);
                      std::memset(row + 100, 0, 200);
                    }},
               {.first_row = 30,
                .num_rows = 70,
                .first_offset = JoinedPartOffset(2),
                .row_bytes = 300}};
  }

  void SetUp() override {
    auto queues = ReadQueues::Create({.kind = ReadQueueKind::kThreads});
    ASSERT_TRUE(queues.ok()) << queues.status();
    queues_ = *std::move(queues);
    auto queue = queues_->Take(4);
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *std::move(queue);
  }

  absl::StatusOr<std::unique_ptr<RowStream>> Stream(
      const RowCheck* check = nullptr) {
    return RowStream::Create(
        *device_,
        {.row_bytes = 300,
         .num_rows = 100,
         .tables = std::make_shared<const std::vector<RowTable>>(tables_)},
        *queue_, {.check = check});
  }

  std::unique_ptr<BlockDevice> device_;
  std::vector<RowTable> tables_;
  std::unique_ptr<ReadQueues> queues_;
  ReadQueues::Handle queue_;
};

TEST_F(JoinedDeviceTest, IsAsStrictAsItsStrictestPart) {
  EXPECT_EQ(device_->alignment(), 4096u);
  EXPECT_TRUE(device_->direct());
  EXPECT_EQ(device_->path(), "first and 2 other files");
  EXPECT_EQ(device_->PartAt(JoinedPartOffset(1) + 5).device->path(), "second");
  EXPECT_EQ(device_->PartAt(JoinedPartOffset(1) + 5).offset, 5u);
}

TEST_F(JoinedDeviceTest, RowsOfAllTablesComeInOneForm) {
  auto stream = Stream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<int64_t> rows = {99, 19, 20, 20, 29, 30, 0, 31, 19};
  std::vector<int> arrived(rows.size());
  ReadTally tally;
  ASSERT_TRUE((*stream)
                  ->Add(
                      rows,
                      [&](size_t position, const std::byte* row) {
                        ++arrived[position];
                        const bool narrow =
                            rows[position] >= 20 && rows[position] < 30;
                        for (size_t i = 0; i < 300; ++i) {
                          EXPECT_EQ(static_cast<int64_t>(row[i]),
                                    narrow && i >= 100 ? 0 : rows[position]);
                        }
                      },
                      tally)
                  .ok());
  // No read goes from one file to the next.
  EXPECT_GE((*stream)->outstanding(), 3);
  while ((*stream)->outstanding() > 0) ASSERT_TRUE((*stream)->Advance().ok());
  EXPECT_EQ(arrived, std::vector<int>(rows.size(), 1));
  EXPECT_EQ(tally.rows, static_cast<int64_t>(rows.size()));
  // As stored: five distinct rows of 300 bytes and two of 100.
  EXPECT_EQ(tally.payload_bytes, 5 * 300 + 2 * 100);
}

TEST_F(JoinedDeviceTest, NamesTheFileThatIsTooShort) {
  tables_[1].num_rows = 11;
  const absl::Status status = Stream().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message().substr(0, 8), "second: ") << status;
}

// Finds one row damaged.
class OneDamaged final : public RowCheck {
 public:
  bool Matches(int64_t row, const std::byte* /*bytes*/) const override {
    return row != 22;
  }
};

TEST_F(JoinedDeviceTest, NamesTheFileAndItsRowThatAreDamaged) {
  const OneDamaged check;
  auto stream = Stream(&check);
  ASSERT_TRUE(stream.ok()) << stream.status();
  ReadTally tally;
  ASSERT_TRUE(
      (*stream)
          ->Add(
              std::vector<int64_t>{22}, [](size_t, const std::byte*) {}, tally)
          .ok());
  absl::Status status;
  while (status.ok()) status = (*stream)->Advance();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message().substr(0, 29), "second: row 2 at byte 264 is ")
      << status;
}

}  // namespace

}  // namespace hearth::io
