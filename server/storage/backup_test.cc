#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/rooted_file_system.h"
#include "engine/io/testing/faults.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_recovery.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

v1::JobSpec TrainSpec(const std::string& dataset) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset(dataset);
  return spec;
}

// Data directory with its jobs.
class Home {
 public:
  Home(io::FileSystem& files, const std::string& path)
      : data_dir_(*DataDir::Open(files, path)),
        folders_(files, path),
        store_(*JobStore::Open(files, data_dir_->DatabasePath(), Clock::Real(),
                               [](const std::string&) {},
                               {.folders = &folders_})) {}

  const DataDir& data_dir() const { return *data_dir_; }
  JobStore& store() { return *store_; }

  std::string Train(const std::string& weights) {
    const std::string id = store_->Submit("", TrainSpec("a"))->id();
    for (const v1::JobState state :
         {v1::PREPARING, v1::RUNNING, v1::SUCCEEDED}) {
      if (state == v1::SUCCEEDED) {
        const std::string model = data_dir_->JobPath(id) + "/model";
        fs::create_directories(model);
        std::ofstream(model + "/model.safetensors") << weights;
      }
      EXPECT_TRUE(store_->ChangeState(id, {.state = state}).ok());
    }
    std::ofstream(data_dir_->JobPath(id) + "/checkpoint") << "large";
    return id;
  }

 private:
  const std::unique_ptr<DataDir> data_dir_;
  JobFolders folders_;
  const std::unique_ptr<JobStore> store_;
};

class BackupTest : public testing::Test {
 protected:
  BackupTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    home_.emplace(files_, root_ + "/data");
  }

  absl::StatusOr<BackupResult> Back() {
    return BackUp(files_, home_->data_dir(), home_->store(), to_);
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string root_ = testing::TempDir() + "/backup_test";
  const std::string to_ = root_ + "/backup";
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::optional<Home> home_;
};

TEST_F(BackupTest, ABackupIsADataDirectory) {
  const std::string weights(3 << 20, 'w');
  const std::string trained = home_->Train(weights);
  const std::string queued =
      home_->store().Submit("request", TrainSpec("b"))->id();
  const auto result = Back();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->jobs, 2);
  EXPECT_EQ(result->models, 1);
  EXPECT_GT(result->size_bytes, weights.size());
  EXPECT_FALSE(fs::exists(to_ + ".tmp"));
  EXPECT_FALSE(fs::exists(to_ + "/jobs/" + trained + "/checkpoint"));
  Home restored(files_, to_);
  EXPECT_THAT(restored.store().warnings(), IsEmpty());
  EXPECT_EQ(restored.store().Get(trained)->state(), v1::SUCCEEDED);
  EXPECT_EQ(restored.store().ReadEvents(trained, 1, 9)->events.size(), 4u);
  EXPECT_EQ(restored.store().Get(queued)->state(), v1::QUEUED);
  EXPECT_EQ(
      Read(restored.data_dir().JobPath(trained) + "/model/model.safetensors"),
      weights);
}

TEST_F(BackupTest, ABackupWithoutItsDatabaseIsOneToo) {
  const std::string trained = home_->Train("w");
  ASSERT_TRUE(Back().ok());
  fs::remove(to_ + "/hearth.db");
  Home restored(files_, to_);
  EXPECT_EQ(restored.store().Get(trained)->state(), v1::SUCCEEDED);
}

// A restored daemon that loses its database still requires tokens.
TEST_F(BackupTest, ThatTokensAreRequiredIsKept) {
  ASSERT_TRUE(Back().ok());
  EXPECT_FALSE(fs::exists(to_ + "/tokens_required"));
  fs::remove_all(to_);
  std::ofstream(home_->data_dir().TokensMarkerPath()) << "yes";
  ASSERT_TRUE(Back().ok());
  EXPECT_EQ(Read(to_ + "/tokens_required"), "yes");
}

// The database's copy, too, is written through the given file system.
TEST_F(BackupTest, EachFileGoesTheWayOfTheOthers) {
  home_->Train("w");
  const auto rooted =
      io::OpenRooted(files_, {.free = root_ + "/data", .write = {root_}}, 0077);
  ASSERT_TRUE(rooted.ok()) << rooted.status();
  ASSERT_TRUE(BackUp(**rooted, home_->data_dir(), home_->store(), to_).ok());
  for (const auto& entry : fs::recursive_directory_iterator(to_)) {
    EXPECT_EQ(fs::status(entry).permissions(),
              entry.is_directory() ? fs::perms(0700) : fs::perms(0600))
        << entry.path();
  }
  EXPECT_TRUE(fs::is_empty(root_ + "/data/scratch"));
}

TEST_F(BackupTest, JobsGoOnMeanwhile) {
  for (int i = 0; i < 8; ++i) home_->Train("w");
  std::jthread busy([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) home_->Train("w");
  });
  for (int i = 0; i < 3; ++i) {
    const auto result = Back();
    ASSERT_TRUE(result.ok()) << result.status();
    Home restored(files_, to_);
    const auto counts = restored.store().CountByState();
    EXPECT_GE(counts->at(v1::SUCCEEDED), 8);
    JobQuery query;
    query.states = {v1::SUCCEEDED};
    query.page_size = 1000;
    const auto page = restored.store().List(query);
    for (const v1::Job& job : page->jobs) {
      EXPECT_EQ(Read(restored.data_dir().JobPath(job.id()) +
                     "/model/model.safetensors"),
                "w")
          << job.id();
    }
    fs::remove_all(to_);
  }
}

TEST_F(BackupTest, PlacesThatAreTakenOrTheDaemonsOwnAreRefused) {
  home_->Train("w");
  ASSERT_TRUE(Back().ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Back().status()));
  for (const char* inside : {"/data/backup", "/data/jobs/x", "/link/x"}) {
    fs::remove(root_ + "/link");
    fs::create_directory_symlink(root_ + "/data", root_ + "/link");
    EXPECT_TRUE(absl::IsInvalidArgument(
        BackUp(files_, home_->data_dir(), home_->store(), root_ + inside)
            .status()))
        << inside;
  }
  EXPECT_TRUE(absl::IsNotFound(
      BackUp(files_, home_->data_dir(), home_->store(), root_ + "/none/x")
          .status()));
}

TEST_F(BackupTest, AFailureAnywhereLeavesNothing) {
  home_->Train("w");
  int failures = 0;
  for (int64_t nth = 1;; ++nth) {
    files_.Inject({.nth = nth});
    const auto result = Back();
    const bool was_hit = files_.hits() > 0;
    files_.Clear();
    if (!was_hit) break;
    if (result.ok()) {
      // Some operations look for files that need not exist.
      EXPECT_TRUE(fs::exists(to_));
    } else {
      ++failures;
    }
    fs::remove_all(to_);
    fs::remove_all(to_ + ".tmp");
  }
  EXPECT_GT(failures, 20);
  std::cout << failures << " failures of single operations\n";
}

}  // namespace
}  // namespace hearth::server
