#include "server/storage/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/plan/plan_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::server {

namespace {

namespace fs = std::filesystem;

class OutsideTest : public testing::Test {
 protected:
  OutsideTest() {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/data/jobs");
    fs::create_directories(root_ + "/database");
    fs::create_directory_symlink(root_ + "/data/jobs", root_ + "/link");
    fs::create_directory_symlink("link", root_ + "/link2");
    fs::create_directory_symlink(root_ + "/data", root_ + "/named");
  }

  bool IsOutside(const std::string& path) {
    const absl::Status status =
        CheckOutside(io::FileSystem::Posix(), root_ + "/named", root_ + path);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return status.ok();
  }

  const std::string root_ = testing::TempDir() + "/outside_test";
};

TEST_F(OutsideTest, FoldersInTheDataDirectoryAreFoundHoweverTheyAreWritten) {
  for (const char* path :
       {"/data", "/data/", "/data/x", "/data/x/y", "/data/jobs/train-1",
        "//data//x", "/data/./x", "/new/../data/x", "/database/../data/x",
        "/link/x", "/link2/x", "/link/../x", "/named/x", "/data/jobs/.."}) {
    EXPECT_FALSE(IsOutside(path)) << path;
  }
}

TEST_F(OutsideTest, OthersAreOutside) {
  for (const char* path : {"/model", "/database/x", "/datax", "/data/../x",
                           "/data/x/../../y", "/link/../../x", "/..", ""}) {
    EXPECT_TRUE(IsOutside(path)) << path;
  }
}

TEST_F(OutsideTest, AMissingDataDirectoryIsAnError) {
  EXPECT_FALSE(
      CheckOutside(io::FileSystem::Posix(), root_ + "/none", "/x").ok());
}

using ::testing::AllOf;
using ::testing::HasSubstr;

class DataDirTest : public testing::Test {
 protected:
  DataDirTest() { fs::remove_all(root_); }

  absl::StatusOr<std::unique_ptr<DataDir>> Open() {
    return DataDir::Open(io::FileSystem::Posix(), path_);
  }

  void Write(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(path_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::string Read(const std::string& name) {
    std::ifstream file(fs::path(path_) / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  bool Exists(const std::string& name) {
    return fs::exists(fs::path(path_) / name);
  }

  const std::string root_ = absl::StrCat(testing::TempDir(), "/data_dir_test");
  const std::string path_ = root_ + "/deep/er/data";
};

TEST_F(DataDirTest, MakesTheLayout) {
  const auto data_dir = Open();
  ASSERT_TRUE(data_dir.ok()) << data_dir.status();
  EXPECT_TRUE(fs::is_directory((*data_dir)->DatasetsPath()));
  EXPECT_TRUE(fs::is_directory((*data_dir)->JobsPath()));
  EXPECT_EQ(Read("format_version"), "1\n");
  EXPECT_EQ(Read("hearth.lock"), absl::StrCat(getpid(), "\n"));
  EXPECT_EQ((*data_dir)->DatasetPath("wordnet"), path_ + "/datasets/wordnet");
  EXPECT_EQ((*data_dir)->JobPath("train-1"), path_ + "/jobs/train-1");
  EXPECT_EQ((*data_dir)->DatabasePath(), path_ + "/hearth.db");
}

TEST_F(DataDirTest, ASecondOneIsRefusedUntilTheFirstIsGone) {
  auto first = Open();
  ASSERT_TRUE(first.ok());
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  first->reset();
  EXPECT_TRUE(Open().ok());
}

// Runs a process that opens the data directory and then waits to be killed.
pid_t StartHolder(const std::string& path) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto data_dir = DataDir::Open(io::FileSystem::Posix(), path);
    const char byte = data_dir.ok() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST_F(DataDirTest, AnotherProcessIsNamedAndNothingTouched) {
  const pid_t child = StartHolder(path_);
  Write("datasets/half.tmp/features.npy", "x");
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(path_), HasSubstr(absl::StrCat(child))));
  EXPECT_TRUE(Exists("datasets/half.tmp/features.npy"));
  EXPECT_EQ(Read("hearth.lock"), absl::StrCat(child, "\n"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Open().ok());
}

TEST_F(DataDirTest, NobodyElseEntersIt) {
  const auto mode = [this](const std::string& name) {
    return fs::status(path_ + name).permissions();
  };
  Write("format_version", "1\n");
  Write("audit.log", "x");
  fs::create_directories(path_ + "/datasets");
  fs::permissions(path_, fs::perms(0755));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(mode(""), fs::perms(0700));
  EXPECT_EQ(mode("/audit.log"), fs::perms(0600));
  EXPECT_EQ(mode("/datasets"), fs::perms(0700));
  // Members of the socket's group pass through the folder, and get no further.
  const auto shared = DataDir::Open(io::FileSystem::Posix(), path_, getegid());
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(mode(""), fs::perms(0710));
  EXPECT_EQ(mode("/audit.log"), fs::perms(0600));
}

TEST_F(DataDirTest, AFolderOfOthersThatIsOpenIsLeftAsItIs) {
  Write("thesis.tex", "x");
  fs::permissions(path_, fs::perms(0755));
  const auto data_dir = Open();
  EXPECT_EQ(data_dir.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0755));
  EXPECT_FALSE(Exists("format_version"));
  fs::permissions(path_, fs::perms(0700));
  EXPECT_TRUE(Open().ok());
}

TEST_F(DataDirTest, RemovesLeftoversAndNothingElse) {
  Write("format_version", "1\n");
  Write("hearth.db.tmp", "x");
  Write("datasets/whole/features.npy", "x");
  Write("jobs/train-1/checkpoint.tmp", "x");
  Write("jobs/train-1/checkpoint", "x");
  Write("jobs/train-2.tmp/checkpoint", "x");
  Write("jobs/notes", "x");
  const auto data_dir = Open();
  ASSERT_TRUE(data_dir.ok()) << data_dir.status();
  EXPECT_FALSE(Exists("hearth.db.tmp"));
  EXPECT_FALSE(Exists("jobs/train-1/checkpoint.tmp"));
  EXPECT_FALSE(Exists("jobs/train-2.tmp"));
  EXPECT_TRUE(Exists("datasets/whole/features.npy"));
  EXPECT_TRUE(Exists("jobs/train-1/checkpoint"));
  EXPECT_TRUE(Exists("jobs/notes"));
}

TEST_F(DataDirTest, UnfinishedDatasetsStayForTheJobsThatMakeThem) {
  Write("format_version", "1\n");
  Write("datasets/import-1.tmp/features.npy", "x");
  Write("datasets/import-2.tmp/features.npy", "x");
  Write("datasets/half.tmp/features.npy", "x");
  Write("datasets/import-2/features.npy", "x");
  const auto data_dir = Open();
  ASSERT_TRUE(data_dir.ok()) << data_dir.status();
  EXPECT_EQ((*data_dir)->UnfinishedDatasetPath("import-1"),
            path_ + "/datasets/import-1.tmp");
  EXPECT_TRUE(Exists("datasets/import-2.tmp/features.npy"));
  ASSERT_TRUE((*data_dir)
                  ->RemoveUnfinishedDatasets(io::FileSystem::Posix(),
                                             {"import-1", "train-3"})
                  .ok());
  EXPECT_TRUE(Exists("datasets/import-1.tmp/features.npy"));
  EXPECT_FALSE(Exists("datasets/import-2.tmp"));
  EXPECT_FALSE(Exists("datasets/half.tmp"));
  EXPECT_TRUE(Exists("datasets/import-2/features.npy"));
}

TEST_F(DataDirTest, ANewerFormatIsRefusedBeforeAnyChange) {
  Write("format_version", "2\n");
  Write("datasets/half.tmp/features.npy", "x");
  const auto data_dir = Open();
  EXPECT_EQ(data_dir.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(data_dir.status().message()), HasSubstr("format 2"));
  EXPECT_TRUE(Exists("datasets/half.tmp/features.npy"));
}

TEST_F(DataDirTest, ALostFormatVersionIsWrittenAnew) {
  for (const size_t zeros : {0, 2}) {
    Write("format_version", std::string(zeros, '\0'));
    const auto data_dir = Open();
    ASSERT_TRUE(data_dir.ok()) << data_dir.status();
    EXPECT_EQ(Read("format_version"), "1\n");
  }
}

TEST_F(DataDirTest, ADamagedFormatIsRefused) {
  Write("format_version", "what\n");
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(DataDirTest, AFileInTheWayIsNamed) {
  fs::create_directories(fs::path(path_).parent_path());
  std::ofstream(path_) << "x";
  const auto data_dir = Open();
  ASSERT_FALSE(data_dir.ok());
  EXPECT_THAT(std::string(data_dir.status().message()), HasSubstr(path_));
}

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
