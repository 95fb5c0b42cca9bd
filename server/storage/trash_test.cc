#include "server/storage/trash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/synchronization/notification.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/scratch_directory.h"

namespace hearth::server {
namespace {

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
