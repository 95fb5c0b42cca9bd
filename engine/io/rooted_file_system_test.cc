#include "engine/io/rooted_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"

namespace hearth::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RootedFileSystemTest : public ::testing::Test {
 protected:
  RootedFileSystemTest() {
    fs::remove_all(folder_);
    for (const char* name :
         {"/in/deep", "/out", "/data", "/secret", "/inner"}) {
      fs::create_directories(folder_ + name);
    }
    Put("/in/a", "alpha");
    Put("/in/deep/b", "beta");
    Put("/data/c", "gamma");
    Put("/secret/s", "swordfish");
    Put("/inner/i", "iota");
  }

  void Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + name) << text;
  }

  std::string Contents(const std::string& name) {
    std::ifstream file(folder_ + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::unique_ptr<FileSystem> Open(unsigned mask = 0022) {
    auto files = OpenRooted(FileSystem::Posix(),
                            {.free = folder_ + "/data",
                             .read = {folder_ + "/in"},
                             .write = {folder_ + "/out/"}},
                            mask);
    EXPECT_TRUE(files.ok()) << files.status();
    return *std::move(files);
  }

  absl::StatusOr<std::string> Read(FileSystem& files, const std::string& name) {
    return ReadWholeFile(files, folder_ + name, 1000);
  }

  absl::Status Write(FileSystem& files, const std::string& name) {
    return WriteFileAtomically(files, folder_ + name, "written");
  }

  const std::string folder_ = ::testing::TempDir() + "/rooted_test";
};

TEST_F(RootedFileSystemTest, WhatLiesBelowARootIsRead) {
  const auto files = Open();
  EXPECT_EQ(*Read(*files, "/in/a"), "alpha");
  EXPECT_EQ(*Read(*files, "/in/deep/b"), "beta");
  EXPECT_EQ(*Read(*files, "/in//deep/./b"), "beta");
  EXPECT_EQ(*Read(*files, "/in/deep/../a"), "alpha");
  EXPECT_THAT(*files->List(folder_ + "/in"), ElementsAre("a", "deep"));
  EXPECT_EQ(files->Stat(folder_ + "/in/a")->size_bytes, 5u);
  EXPECT_EQ((*files->OpenForScan(folder_ + "/in/a"))->path(),
            folder_ + "/in/a");
  EXPECT_EQ(
      (*files->Map(folder_ + "/in/a", AccessPattern::kNormal))->data().size(),
      5u);
  EXPECT_TRUE(files->FreeBytes(folder_ + "/in").ok());
  // Absent is not the same as forbidden.
  EXPECT_EQ(Read(*files, "/in/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RootedFileSystemTest, NothingElseIsRead) {
  const auto files = Open();
  for (const std::string& name :
       {std::string("/secret/s"), std::string("/secret/none"),
        std::string("/in/../secret/s"), std::string("/in/deep/../../secret/s"),
        std::string("/inner/i"), std::string("/in/../in/../secret/s"),
        std::string("/data/../secret/s")}) {
    const auto text = Read(*files, name);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kPermissionDenied)
        << name << text.status();
    EXPECT_FALSE(files->Map(folder_ + name, AccessPattern::kNormal).ok());
    EXPECT_FALSE(files->OpenForScan(folder_ + name).ok());
    EXPECT_FALSE(files->Stat(folder_ + name).ok());
  }
  EXPECT_FALSE(files->List(folder_ + "/secret").ok());
  EXPECT_FALSE(files->List(folder_).ok());
  EXPECT_FALSE(files->List("/").ok());
  EXPECT_FALSE(ReadWholeFile(*files, "/etc/passwd", 1 << 20).ok());
  EXPECT_FALSE(ReadWholeFile(*files, "relative", 1000).ok());
  EXPECT_FALSE(ReadWholeFile(*files, "", 1000).ok());
}

TEST_F(RootedFileSystemTest, SymbolicLinksAreNotFollowed) {
  fs::create_symlink(folder_ + "/secret/s", folder_ + "/in/file");
  fs::create_symlink(folder_ + "/secret", folder_ + "/in/folder");
  fs::create_symlink("a", folder_ + "/in/inside");
  fs::create_symlink(folder_ + "/secret", folder_ + "/out/folder");
  fs::create_symlink(folder_ + "/secret/s", folder_ + "/out/file");
  fs::create_symlink("/proc/self/root", folder_ + "/in/magic");
  const auto files = Open();
  for (const char* name : {"/in/file", "/in/folder/s", "/in/inside",
                           "/in/folder", "/in/magic/etc/passwd"}) {
    EXPECT_EQ(Read(*files, name).status().code(),
              absl::StatusCode::kPermissionDenied)
        << name;
  }
  EXPECT_FALSE(Write(*files, "/out/folder/new").ok());
  EXPECT_FALSE(files->Create(folder_ + "/out/file").ok());
  EXPECT_FALSE(files->CreateDirectory(folder_ + "/out/folder/new").ok());
  EXPECT_FALSE(files->RemoveTree(folder_ + "/out/folder/s").ok());
  EXPECT_EQ(Contents("/secret/s"), "swordfish");
  EXPECT_FALSE(fs::exists(folder_ + "/secret/new"));
}

TEST_F(RootedFileSystemTest, WritingIsBelowItsRootsAlone) {
  const auto files = Open();
  ASSERT_TRUE(files->CreateDirectory(folder_ + "/out/new").ok());
  EXPECT_TRUE(files->CreateDirectory(folder_ + "/out/new").ok());
  ASSERT_TRUE(Write(*files, "/out/new/file").ok());
  EXPECT_EQ(Contents("/out/new/file"), "written");
  EXPECT_EQ(*Read(*files, "/out/new/file"), "written");
  ASSERT_TRUE(files->Rename(folder_ + "/out/new", folder_ + "/out/other").ok());
  EXPECT_TRUE(files->SyncDirectory(folder_ + "/out").ok());
  EXPECT_TRUE(files->RemoveTree(folder_ + "/out/other").ok());
  EXPECT_TRUE(files->RemoveTree(folder_ + "/out/other").ok());
  EXPECT_TRUE(files->RemoveTree(folder_ + "/out/no/such").ok());
  for (const char* name :
       {"/in/new", "/secret/new", "/new", "/out/../new", "/out/../secret/new",
        "/outer", "/out", "/out/.", "/out/.."}) {
    EXPECT_FALSE(Write(*files, name).ok()) << name;
    EXPECT_FALSE(files->CreateDirectory(folder_ + name).ok()) << name;
    EXPECT_FALSE(files->RemoveTree(folder_ + name).ok()) << name;
  }
  EXPECT_FALSE(files->Rename(folder_ + "/in/a", folder_ + "/out/a").ok());
  EXPECT_FALSE(Write(*files, "/in/a").ok());
  EXPECT_EQ(Contents("/in/a"), "alpha");
}

TEST_F(RootedFileSystemTest, TheFreeFolderIsFree) {
  fs::create_symlink(folder_ + "/secret/s", folder_ + "/data/link");
  const auto files = Open();
  EXPECT_EQ(*Read(*files, "/data/c"), "gamma");
  EXPECT_EQ(*Read(*files, "/data/link"), "swordfish");
  EXPECT_TRUE(Write(*files, "/data/new").ok());
  EXPECT_TRUE(files->Rename(folder_ + "/data/new", folder_ + "/data/old").ok());
}

TEST_F(RootedFileSystemTest, ErrorsTellThePathThatWasAskedFor) {
  const auto files = Open();
  const auto missing = Read(*files, "/in/none");
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr(folder_ + "/in/none"));
  const auto file = files->OpenForRead(folder_ + "/in/a");
  std::byte bytes[10];
  const absl::Status status = (*file)->Read(0, absl::MakeSpan(bytes));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/in/a"));
  const auto folder = files->OpenForRead(folder_ + "/in/deep");
  EXPECT_THAT(std::string(folder.status().message()),
              HasSubstr(folder_ + "/in/deep"));
  for (const absl::Status& error :
       {status, folder.status(), files->CreateDirectory(folder_ + "/out/a/b"),
        files->Rename(folder_ + "/out/x", folder_ + "/out/y")}) {
    EXPECT_FALSE(error.ok());
    EXPECT_THAT(std::string(error.message()), Not(HasSubstr("/proc/self")));
  }
}

TEST_F(RootedFileSystemTest, ErrorsOfWritingTellThePathThatWasAskedFor) {
  FaultyFileSystem faulty(FileSystem::Posix());
  const auto files = *OpenRooted(
      faulty,
      {.free = folder_ + "/data", .read = {}, .write = {folder_ + "/out"}},
      0022);
  const std::byte bytes[10] = {};
  for (const Operation operation : {Operation::kAllocate, Operation::kWrite,
                                    Operation::kSync, Operation::kClose}) {
    const auto file = *files->Create(folder_ + "/out/file");
    faulty.Inject({.only = operation});
    absl::Status status = file->Allocate(100);
    status.Update(file->Append(bytes));
    status.Update(file->Sync());
    status.Update(file->Close());
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(folder_ + "/out/file"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/proc/self")));
  }
}

TEST_F(RootedFileSystemTest, WhatIsWrittenIsForOthers) {
  const mode_t before = umask(0077);
  const auto files = Open(0027);
  ASSERT_TRUE(files->CreateDirectory(folder_ + "/out/new").ok());
  ASSERT_TRUE(Write(*files, "/out/new/file").ok());
  ASSERT_TRUE(Write(*files, "/data/file").ok());
  umask(before);
  const auto mode = [this](const char* name) {
    return fs::status(folder_ + name).permissions();
  };
  EXPECT_EQ(mode("/out/new"), fs::perms(0750));
  EXPECT_EQ(mode("/out/new/file"), fs::perms(0640));
  EXPECT_EQ(mode("/data/file"), fs::perms(0600));
}

TEST_F(RootedFileSystemTest, WithoutRootsAllIsLetThrough) {
  const auto files =
      *OpenRooted(FileSystem::Posix(), {.free = folder_ + "/data"}, 0022);
  EXPECT_EQ(*Read(*files, "/secret/s"), "swordfish");
  EXPECT_TRUE(Write(*files, "/secret/new").ok());
  EXPECT_TRUE(files->CreateDirectory(folder_ + "/secret/folder").ok());
  EXPECT_EQ(fs::status(folder_ + "/secret/new").permissions(), fs::perms(0644));
}

TEST_F(RootedFileSystemTest, ARootThatIsMissingIsNamed) {
  const auto files = OpenRooted(
      FileSystem::Posix(), {.free = "/d", .read = {folder_ + "/none"}}, 0022);
  EXPECT_EQ(files.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("/none"));
}

// Another user swaps a folder for a link to a secret one, again and again.
TEST_F(RootedFileSystemTest, NobodyWinsARace) {
  fs::create_directories(folder_ + "/in/swapped");
  Put("/in/swapped/s", "harmless");
  fs::create_symlink(folder_ + "/secret", folder_ + "/in/link");
  const auto files = Open();
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      std::error_code ignored;
      fs::rename(folder_ + "/in/swapped", folder_ + "/in/aside", ignored);
      fs::rename(folder_ + "/in/link", folder_ + "/in/swapped", ignored);
      fs::rename(folder_ + "/in/swapped", folder_ + "/in/link", ignored);
      fs::rename(folder_ + "/in/aside", folder_ + "/in/swapped", ignored);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const auto text = Read(*files, "/in/swapped/s");
    EXPECT_EQ(text.value_or("harmless"), "harmless");
  }
  stop = true;
  swapper.join();
}

// The root is the folder that was opened, not the folder that has its name
// later.
TEST_F(RootedFileSystemTest, ARootIsHeld) {
  const auto files = Open();
  fs::rename(folder_ + "/in", folder_ + "/moved");
  fs::create_symlink(folder_ + "/secret", folder_ + "/in");
  EXPECT_EQ(*Read(*files, "/in/a"), "alpha");
  EXPECT_EQ(Read(*files, "/in/s").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hearth::io
