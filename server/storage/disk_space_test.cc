#include "server/storage/disk_space.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "engine/base/manual_clock.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"

namespace hearth::server {

namespace {

class DiskReserveTest : public ::testing::Test {
 protected:
  DiskReserveTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EXPECT_TRUE(reserve_.Fill().ok());
  }

  // Makes a write that fails `failures` times for want of space.
  absl::Status WriteAfter(int failures) {
    return reserve_.Write([&]() -> absl::Status {
      if (failures-- > 0) return absl::ResourceExhaustedError("disk full");
      return absl::OkStatus();
    });
  }

  const std::string folder_ = ::testing::TempDir() + "disk_reserve_test";
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  ManualClock clock_;
  DiskReserve reserve_{files_, clock_, folder_ + "/reserve"};
};

TEST_F(DiskReserveTest, HoldsBlocksOfTheDisk) {
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces);
  const std::filesystem::path piece = folder_ + "/reserve/0";
  EXPECT_EQ(std::filesystem::file_size(piece), DiskReserve::kPieceBytes);
}

TEST_F(DiskReserveTest, IsGivenUpPieceByPiece) {
  EXPECT_TRUE(WriteAfter(0).ok());
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces);
  EXPECT_TRUE(WriteAfter(3).ok());
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces - 3);
  EXPECT_TRUE(absl::IsResourceExhausted(WriteAfter(100)));
  EXPECT_EQ(reserve_.pieces(), 0);
}

TEST_F(DiskReserveTest, OtherErrorsAreNotTriedAgain) {
  int attempts = 0;
  EXPECT_TRUE(absl::IsUnavailable(reserve_.Write([&] {
    ++attempts;
    return absl::UnavailableError("EIO");
  })));
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces);
}

TEST_F(DiskReserveTest, IsFilledAgainOnceThereIsRoom) {
  ASSERT_TRUE(WriteAfter(2).ok());
  files_.LimitSpace(DiskReserve::kSlackBytes);
  clock_.seconds += 60;
  EXPECT_TRUE(WriteAfter(0).ok());
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces - 2);
  files_.LimitSpace(uint64_t{1} << 40);
  // The last attempt to fill was just before.
  EXPECT_TRUE(WriteAfter(0).ok());
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces - 2);
  clock_.seconds += 60;
  EXPECT_TRUE(WriteAfter(0).ok());
  EXPECT_EQ(reserve_.pieces(), DiskReserve::kPieces);
}

TEST_F(DiskReserveTest, IsFoundByTheNextOne) {
  ASSERT_TRUE(WriteAfter(5).ok());
  DiskReserve next(files_, clock_, folder_ + "/reserve");
  EXPECT_EQ(next.pieces(), DiskReserve::kPieces - 5);
  EXPECT_TRUE(next.Fill().ok());
  EXPECT_EQ(next.pieces(), DiskReserve::kPieces);
}

namespace fs = std::filesystem;

class TrashTest : public testing::Test {
 protected:
  TrashTest() {
    fs::create_directories(folder_.Path("data/inner"));
    std::ofstream(folder_.Path("data/file")) << "x";
    trash_.emplace(files_, folder_.Path("scratch/trash"), [this] {
      if (!removed_.HasBeenNotified()) removed_.Notify();
    });
  }

  const io::ScratchDirectory folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  absl::Notification removed_;
  std::optional<Trash> trash_;
};

TEST_F(TrashTest, RemovesAll) {
  ASSERT_TRUE(trash_->Throw(folder_.Path("data")).ok());
  EXPECT_FALSE(fs::exists(folder_.Path("data")));
  removed_.WaitForNotification();
  EXPECT_TRUE(fs::is_empty(folder_.Path("scratch/trash")));
}

TEST_F(TrashTest, NobodyWaitsForARemoval) {
  files_.Inject({.for_good = true,
                 .effect = io::Effect::kBlock,
                 .only = io::Operation::kRemoveTree});
  ASSERT_TRUE(trash_->Throw(folder_.Path("data")).ok());
  EXPECT_FALSE(fs::exists(folder_.Path("data")));
  fs::create_directories(folder_.Path("data"));
  ASSERT_TRUE(trash_->Throw(folder_.Path("data")).ok());
  files_.AwaitHit();
  EXPECT_FALSE(removed_.HasBeenNotified());
  files_.Clear();
  removed_.WaitForNotification();
}

TEST_F(TrashTest, AFullDiskIsMadeRoomOnAtOnce) {
  files_.Inject({.for_good = true,
                 .status = absl::ResourceExhaustedError("full"),
                 .only = io::Operation::kCreateDirectory});
  ASSERT_TRUE(trash_->Throw(folder_.Path("data")).ok());
  EXPECT_FALSE(fs::exists(folder_.Path("data")));
  EXPECT_FALSE(fs::exists(folder_.Path("scratch")));
  EXPECT_TRUE(removed_.HasBeenNotified());
}

TEST_F(TrashTest, WhatCannotBeTakenAwayStays) {
  EXPECT_TRUE(absl::IsNotFound(trash_->Throw(folder_.Path("none"))));
  files_.Inject({.only = io::Operation::kRename});
  EXPECT_TRUE(absl::IsUnavailable(trash_->Throw(folder_.Path("data"))));
  EXPECT_TRUE(fs::exists(folder_.Path("data/file")));
}

}  // namespace

}  // namespace hearth::server
