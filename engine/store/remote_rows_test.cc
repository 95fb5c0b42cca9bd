#include "engine/store/remote_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/stored_array.h"
#include "engine/store/topology.h"
#include "tests/fixtures/graphs.h"
#include "tests/fixtures/shards.h"

namespace hearth::store {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> AllBytes(const ScannedFeatures& features) {
  std::vector<std::byte> bytes(features.rows.RowOffset(features.rows.num_rows) -
                               features.rows.RowOffset(0));
  const absl::Status status =
      features.file->Read(features.rows.RowOffset(0), absl::MakeSpan(bytes));
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

RowSet All(int64_t rows) {
  RowSet all(rows);
  for (int64_t row = 0; row < rows; ++row) all.Add(row);
  return all;
}

class ShardTest : public ::testing::Test {
 protected:
  // The dataset `folder_` and its shard `index` of `count`.
  void Make(const absl::StatusOr<std::string>& folder, int64_t index,
            int64_t count) {
    ASSERT_TRUE(folder.ok()) << folder.status();
    whole_ = *Dataset::Open(files_, *folder);
    const std::string path = scratch_.Path("shard");
    std::filesystem::remove_all(path);
    const absl::Status made = testing::MakeShard(*folder, path, index, count);
    ASSERT_TRUE(made.ok()) << made;
    elsewhere_ = std::make_shared<testing::RowsElsewhere>(*folder);
    auto shard = Dataset::Open(files_, path, nullptr, elsewhere_);
    ASSERT_TRUE(shard.ok()) << shard.status();
    shard_ = *std::move(shard);
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  std::shared_ptr<testing::RowsElsewhere> elsewhere_;
  std::unique_ptr<Dataset> whole_;
  std::unique_ptr<Dataset> shard_;
};

// Rows of 62 bytes, so that blocks and rows do not end together.
constexpr testing::PlantedGraph kNarrow = {.feature_dim = 31,
                                           .half_features = true};

TEST_F(ShardTest, GivesTheRowsOfTheWholeDataset) {
  const auto folder = testing::ImportPlantedGraph(kNarrow, scratch_.path());
  for (const int64_t index : {0, 1, 2}) {
    Make(folder, index, 3);
    const RowSet all = All(600);
    const auto rows = shard_->ScanRows(all, {});
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(AllBytes(*rows), AllBytes(*whole_->ScanFeatures()));
    // A row that lies across the end of the blocks that are here is read, too.
    EXPECT_LE(elsewhere_->rows_read, 401);
    EXPECT_GE(elsewhere_->rows_read, 600 - 200 - 2 * 4096 / 62);
    EXPECT_EQ(shard_->manifest().fingerprint, whole_->manifest().fingerprint);
  }
}

TEST_F(ShardTest, ReadsEachPartByItself) {
  Make(testing::ImportPlantedGraph(kNarrow, scratch_.path()), 1, 3);
  const RowSet all = All(600);
  const auto rows = shard_->ScanRows(all, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const auto whole = *whole_->ScanFeatures();
  const uint64_t end = rows->rows.RowOffset(600);
  for (const uint64_t bytes : {1, 61, 100, 4'096, 9'999}) {
    std::vector<std::byte> part(bytes);
    std::vector<std::byte> expected(bytes);
    for (uint64_t at = 0; at + bytes <= end; at += bytes) {
      ASSERT_TRUE(rows->file->Read(at, absl::MakeSpan(part)).ok()) << at;
      ASSERT_TRUE(whole.file->Read(at, absl::MakeSpan(expected)).ok());
      ASSERT_EQ(part, expected) << bytes << " bytes at " << at;
    }
  }
}

TEST_F(ShardTest, RowsThatAreNotWantedStayElsewhereAndReadAsNan) {
  Make(testing::ImportPlantedGraph({.feature_dim = 16}, scratch_.path()), 0, 2);
  RowSet wanted(600);
  for (const int64_t row : {3, 400, 401, 599}) wanted.Add(row);
  const auto rows = shard_->ScanRows(wanted, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::vector<std::byte> bytes = AllBytes(*rows);
  const std::vector<std::byte> whole = AllBytes(*whole_->ScanFeatures());
  EXPECT_EQ(elsewhere_->rows_read, 3);
  const auto row = [](const std::vector<std::byte>& all, size_t number) {
    return std::vector<std::byte>(all.begin() + number * 64,
                                  all.begin() + (number + 1) * 64);
  };
  for (const size_t number : {0, 3, 299, 400, 401, 599}) {
    EXPECT_EQ(row(bytes, number), row(whole, number)) << number;
  }
  EXPECT_EQ(row(bytes, 402), std::vector<std::byte>(64, std::byte{0xff}));
}

TEST_F(ShardTest, TakesTheRowsOfAllNodeTypes) {
  Make(testing::ImportHeteroGraph({}, scratch_.path()), 1, 2);
  const int64_t nodes = 300 + 600 + 40;
  const RowSet all = All(nodes);
  const auto rows = shard_->ScanRows(all, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(AllBytes(*rows), AllBytes(*whole_->ScanFeatures()));
  EXPECT_EQ(elsewhere_->readers, 3);
}

TEST_F(ShardTest, PassesOnTheErrorOfRowsElsewhere) {
  Make(testing::ImportPlantedGraph({}, scratch_.path()), 0, 2);
  elsewhere_->error = WaitForPeerError("host-b: is gone");
  const RowSet all = All(600);
  const auto rows = shard_->ScanRows(all, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<std::byte> bytes(rows->rows.RowOffset(600));
  const absl::Status status = rows->file->Read(0, absl::MakeSpan(bytes));
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kPeer) << status;
}

TEST_F(ShardTest, DamageOfRowsHereIsFound) {
  Make(testing::ImportPlantedGraph({}, scratch_.path()), 1, 2);
  std::fstream(shard_->path() + "/node.features.npy",
               std::ios::in | std::ios::out | std::ios::binary)
          .seekp(9'000)
      << "damage";
  const RowSet all = All(600);
  const auto rows = shard_->ScanRows(all, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<std::byte> bytes(rows->rows.RowOffset(600));
  const absl::Status status = rows->file->Read(0, absl::MakeSpan(bytes));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_F(ShardTest, WhatNeedsAllRowsIsRefused) {
  Make(testing::ImportPlantedGraph({}, scratch_.path()), 1, 2);
  const ArrayFile& features = shard_->manifest().node_types[0].features;
  for (const absl::Status& status :
       {shard_->ScanFeatures().status(),
        shard_->LoadFeatures(Residency::kMemory).status(),
        shard_->LoadFeatures(Residency::kMapped).status(),
        shard_->OpenFeatures({}).status(),
        shard_->LoadRowChecksums({}).status(), shard_->VerifyFeatures({}),
        ArrayStream::Open(files_, shard_->path(), features).status(),
        ScanArray(files_, shard_->path(), features, {},
                  [](auto) { return absl::OkStatus(); })}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rows 300 .. 599 of 600"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--machines"));
  }
  const auto alone = *Dataset::Open(files_, shard_->path());
  const RowSet all = All(600);
  EXPECT_TRUE(absl::IsFailedPrecondition(alone->ScanRows(all, {}).status()));
  // All else is there.
  EXPECT_TRUE(shard_->LoadTopology(Residency::kMemory).ok());
  EXPECT_TRUE(shard_->LoadLabels().ok());
  EXPECT_TRUE(shard_->CheckUnchanged().ok());
  EXPECT_EQ(shard_->LayOutFeatures()->layout.num_rows, 600);
}

TEST_F(ShardTest, AFileThatIsCutHasChanged) {
  Make(testing::ImportPlantedGraph({}, scratch_.path()), 0, 2);
  const std::string path = shard_->path() + "/node.features.npy";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(shard_->CheckUnchanged()));
}

TEST(ShareOfRowsTest, SharesFollowEachOtherAndAreEqual) {
  for (const int64_t all : {0, 1, 5, 7, 600, 601}) {
    int64_t at = 0;
    for (int64_t index = 0; index < 4; ++index) {
      const RowRange rows = ShareOfRows(all, index, 4);
      EXPECT_EQ(rows.first, at);
      EXPECT_GE(rows.end - rows.first, all / 4);
      EXPECT_LE(rows.end - rows.first, all / 4 + 1);
      at = rows.end;
    }
    EXPECT_EQ(at, all);
  }
}

}  // namespace
}  // namespace hearth::store
