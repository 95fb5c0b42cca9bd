#include "server/storage/data_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
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
  // A group that may use the socket passes through, and no further.
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

}  // namespace
}  // namespace hearth::server
