#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

struct Case {
  size_t files;
  uint32_t row_bytes;
  int log2_stripe_rows;
  int64_t num_rows;
};

// The bytes of row `row`; each byte is a function of its place.
std::string RowOf(const Case& c, int64_t row) {
  std::string bytes(c.row_bytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(row * 31 + static_cast<int64_t>(i) * 7);
  }
  return bytes;
}

class StripedDeviceTest : public ::testing::TestWithParam<Case> {
 protected:
  StripedDeviceTest() {
    const Case& c = GetParam();
    std::vector<std::string> contents(c.files);
    for (int64_t row = 0; row < c.num_rows; ++row) {
      contents[static_cast<size_t>(row >> c.log2_stripe_rows) % c.files] +=
          RowOf(c, row);
    }
    std::vector<std::unique_ptr<BlockDevice>> files;
    for (size_t i = 0; i < c.files; ++i) {
      files.push_back(
          NewMemoryDevice(contents[i], 512, absl::StrCat("disk", i)));
    }
    device_ = NewStripedDevice(std::move(files), stripe_bytes());
  }

  void SetUp() override {
    queues_ = *ReadQueues::Create({.kind = ReadQueueKind::kThreads});
    queue_ = *queues_->Take(4);
  }

  static uint64_t stripe_bytes() {
    return uint64_t{GetParam().row_bytes} << GetParam().log2_stripe_rows;
  }

  absl::StatusOr<std::unique_ptr<RowStream>> Stream(
      int64_t more_rows = 0, const RowCheck* check = nullptr) {
    const Case& c = GetParam();
    const std::vector<RowTable> tables = {
        {.num_rows = c.num_rows + more_rows,
         .row_bytes = c.row_bytes,
         .log2_stripe_rows = c.log2_stripe_rows,
         .stripe_gap_bytes = kStripeGapBytes}};
    return RowStream::Create(
        *device_,
        {.row_bytes = c.row_bytes,
         .num_rows = c.num_rows + more_rows,
         .tables = std::make_shared<const std::vector<RowTable>>(tables)},
        *queue_, {.check = check});
  }

  std::unique_ptr<BlockDevice> device_;
  std::unique_ptr<ReadQueues> queues_;
  ReadQueues::Handle queue_;
};

// All rows at once: neighbors are read together, but for stripes.
TEST_P(StripedDeviceTest, EveryRowIsFoundAndNoReadLeavesItsStripe) {
  const Case& c = GetParam();
  auto stream = Stream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::vector<int64_t> rows;
  for (int64_t row = c.num_rows - 1; row >= 0; --row) rows.push_back(row);
  std::vector<int> arrived(rows.size());
  ReadTally tally;
  ASSERT_TRUE(
      (*stream)
          ->Add(
              rows,
              [&](size_t position, const std::byte* row) {
                ++arrived[position];
                const std::string expected = RowOf(c, rows[position]);
                EXPECT_EQ(std::memcmp(row, expected.data(), expected.size()), 0)
                    << rows[position];
              },
              tally)
          .ok());
  const int64_t stripes = ((c.num_rows - 1) >> c.log2_stripe_rows) + 1;
  EXPECT_GE((*stream)->outstanding(), stripes);
  while ((*stream)->outstanding() > 0) ASSERT_TRUE((*stream)->Advance().ok());
  EXPECT_EQ(arrived, std::vector<int>(rows.size(), 1));
  EXPECT_EQ(tally.payload_bytes, c.num_rows * int64_t{c.row_bytes});
  // The last page of the last stripe goes beyond its rows. Rows that are read
  // one by one share pages.
  if (c.row_bytes < ReadCost().max_request_bytes) {
    EXPECT_LT(tally.bytes_read, tally.payload_bytes + 512);
  }
}

TEST_P(StripedDeviceTest, StripesGoToTheFilesInTurn) {
  const Case& c = GetParam();
  const std::vector<BlockDevice*> files = device_->Files();
  ASSERT_EQ(files.size(), c.files);
  uint64_t bytes = 0;
  for (BlockDevice* const file : files) bytes += file->size_bytes();
  EXPECT_EQ(bytes, static_cast<uint64_t>(c.num_rows) * c.row_bytes);
  for (uint64_t stripe = 0; stripe < 2 * c.files + 1; ++stripe) {
    const DevicePart part =
        device_->PartAt(stripe * (stripe_bytes() + kStripeGapBytes) + 5);
    EXPECT_EQ(part.device, files[stripe % c.files]);
    EXPECT_EQ(part.offset, stripe / c.files * stripe_bytes() + 5);
  }
}

TEST_P(StripedDeviceTest, NamesTheFileThatIsTooShort) {
  const absl::Status status = Stream(/*more_rows=*/1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ(status.message().substr(0, 4), "disk") << status;
}

// Finds one row damaged.
class OneDamaged final : public RowCheck {
 public:
  explicit OneDamaged(int64_t row) : row_(row) {}
  bool Matches(int64_t row, const std::byte* /*bytes*/) const override {
    return row != row_;
  }

 private:
  const int64_t row_;
};

TEST_P(StripedDeviceTest, NamesTheFileAndThePlaceThatAreDamaged) {
  const Case& c = GetParam();
  const OneDamaged check(c.num_rows - 1);
  auto stream = Stream(0, &check);
  ASSERT_TRUE(stream.ok()) << stream.status();
  ReadTally tally;
  ASSERT_TRUE((*stream)
                  ->Add(
                      std::vector<int64_t>{c.num_rows - 1},
                      [](size_t, const std::byte*) {}, tally)
                  .ok());
  absl::Status status;
  while (status.ok()) status = (*stream)->Advance();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  const auto stripe =
      static_cast<uint64_t>((c.num_rows - 1) >> c.log2_stripe_rows);
  const BlockDevice& file = *device_->Files()[stripe % c.files];
  const std::string place =
      absl::StrCat(file.path(), ": row ", c.num_rows - 1, " at byte ",
                   file.size_bytes() - c.row_bytes, " is damaged");
  EXPECT_EQ(status.message().substr(0, place.size()), place);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, StripedDeviceTest,
    ::testing::Values(Case{1, 512, 3, 40},      // One file, whole stripes.
                      Case{1, 300, 7, 1000},    // A short last stripe.
                      Case{2, 300, 7, 1000},    // One file has a stripe more.
                      Case{2, 64, 3, 65},       // One row in the last stripe.
                      Case{3, 516, 7, 129},     // One file without stripes.
                      Case{3, 1000, 6, 1711},   //
                      Case{3, 4, 10, 20000},    // Rows far below a block.
                      Case{3, 200000, 6, 200})  // Rows longer than the gap.
);

}  // namespace
}  // namespace hearth::io
