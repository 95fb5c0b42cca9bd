#include "server/storage/data_disks.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

class DataDisksTest : public ::testing::Test {
 protected:
  DataDisksTest() {
    for (const std::string& folder : {one_, two_}) {
      EXPECT_TRUE(files_.CreateDirectory(folder).ok());
    }
  }

  absl::StatusOr<std::unique_ptr<DataDisks>> Open(
      const std::vector<std::string>& folders) {
    return DataDisks::Open(files_, Clock::Real(), folders);
  }

  void ExpectError(const std::vector<std::string>& folders,
                   absl::StatusCode code, const std::string& words) {
    const absl::Status status = Open(folders).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--data-disk " + folders.back() + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }

  io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  const std::string one_ = scratch_.Path("one");
  const std::string two_ = scratch_.Path("two");
};

TEST_F(DataDisksTest, EachHasAStoreInAFolderOfItsOwn) {
  EXPECT_TRUE((*Open({one_}))->warnings().empty());
  const auto disks = Open({one_, two_});
  ASSERT_TRUE(disks.ok()) << disks.status();
  ASSERT_EQ((*disks)->stores().size(), 2u);
  EXPECT_EQ((*disks)->stores()[1]->options().folder, two_ + "/hearth");
  ASSERT_EQ((*disks)->warnings().size(), 1u);
  EXPECT_THAT((*disks)->warnings()[0],
              HasSubstr("--data-disk " + two_ +
                        " is on the file system of --data-disk " + one_));
  struct stat info {};
  ASSERT_EQ(stat((two_ + "/hearth").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(Open({}).ok());
}

TEST_F(DataDisksTest, FoldersThatCannotBeUsedAreNamed) {
  ExpectError({one_, scratch_.Path("none")},
              absl::StatusCode::kFailedPrecondition, "no such folder");
  ASSERT_TRUE(io::WriteFileAtomically(files_, scratch_.Path("file"), "").ok());
  ExpectError({scratch_.Path("file")}, absl::StatusCode::kFailedPrecondition,
              "not a folder");
  ExpectError({one_, one_ + "/../one"}, absl::StatusCode::kInvalidArgument,
              "the same folder as --data-disk " + one_);
  files_.Inject({.status = absl::PermissionDeniedError("read-only"),
                 .only = io::Operation::kCreateDirectory});
  ExpectError({two_}, absl::StatusCode::kPermissionDenied, "read-only");
}

TEST_F(DataDisksTest, OneDaemonHasThem) {
  const auto disks = Open({one_, two_});
  ASSERT_TRUE(disks.ok()) << disks.status();
  ExpectError({two_}, absl::StatusCode::kUnavailable,
              "in use by another hearthd, process ");
}

TEST_F(DataDisksTest, WhatARemovalLeftGoes) {
  ASSERT_TRUE(files_.CreateDirectory(one_ + "/hearth").ok());
  ASSERT_TRUE(files_.CreateDirectory(one_ + "/hearth/stripe-ab-1.tmp").ok());
  ASSERT_TRUE(files_.CreateDirectory(one_ + "/hearth/stripe-ab-2").ok());
  const auto disks = Open({one_});
  ASSERT_TRUE(disks.ok()) << disks.status();
  EXPECT_THAT(*files_.List(one_ + "/hearth"),
              ::testing::ElementsAre("hearth.lock", "stripe-ab-2"));
  EXPECT_EQ((*disks)->stores()[0]->List()->size(), 1u);
}

}  // namespace
}  // namespace hearth::server
