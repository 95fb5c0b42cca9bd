#include "client/doctor/disk_speed.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/scratch_directory.h"

namespace hearth::doctor {
namespace {

namespace fs = std::filesystem;

class DiskSpeedTest : public testing::Test {
 protected:
  absl::StatusOr<DiskSpeed> Measure(io::FileSystem& files) {
    return MeasureDisk(files, *queues_, Clock::Real(), scratch_.path());
  }

  const io::ScratchDirectory scratch_;
  const std::unique_ptr<io::ReadQueues> queues_ = *io::ReadQueues::Create();
};

TEST_F(DiskSpeedTest, AnEmptyFolderIsMeasuredAndStaysEmpty) {
  const auto speed = Measure(io::FileSystem::Posix());
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->reads_per_second, 0);
  EXPECT_GT(speed->bytes_per_second, 0);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(DiskSpeedTest, NoFileThatIsThereIsWrittenTo) {
  const std::string precious = scratch_.Path("precious");
  std::ofstream(precious) << "mine";
  fs::create_symlink(precious, scratch_.Path(absl::StrCat("hearth-doctor-",
                                                          getpid(), ".tmp")));
  ASSERT_TRUE(Measure(io::FileSystem::Posix()).ok());
  EXPECT_EQ(fs::file_size(precious), 4);
}

TEST_F(DiskSpeedTest, WhereADatasetIsNothingIsWritten) {
  fs::create_directories(scratch_.Path("datasets/papers"));
  const std::string array = scratch_.Path("datasets/papers/node_feat");
  std::ofstream(array) << "x";
  fs::resize_file(array, kProbeBytes);
  io::FaultyFileSystem files(io::FileSystem::Posix());
  files.Inject({.for_good = true, .only = io::Operation::kCreate});
  const auto speed = Measure(files);
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->bytes_per_second, 0);
  EXPECT_EQ(files.hits(), 0);
}

TEST_F(DiskSpeedTest, WhateverFailsIsToldAndNothingIsLeft) {
  io::FaultyFileSystem files(io::FileSystem::Posix());
  for (const io::Operation operation :
       {io::Operation::kCreate, io::Operation::kWrite, io::Operation::kSync,
        io::Operation::kOpenForRead, io::Operation::kRead}) {
    files.Inject({.for_good = true, .only = operation});
    const auto speed = Measure(files);
    EXPECT_TRUE(absl::IsUnavailable(speed.status())) << speed.status();
    files.Clear();
    EXPECT_TRUE(fs::is_empty(scratch_.path()));
  }
}

}  // namespace
}  // namespace hearth::doctor
