#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kVersion1[] = "server/storage/testdata/schema_v1.sql";
constexpr char kVersion6[] = "server/storage/testdata/schema_v6.sql";

int64_t Query(Database& database, const std::string& sql) {
  auto statement = database.Prepare(sql);
  EXPECT_TRUE(statement.ok()) << statement.status();
  EXPECT_TRUE(*statement->Step()) << sql;
  return statement->Int64(0);
}

class SchemaTest : public testing::Test {
 protected:
  SchemaTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  // Makes the database of a fixture.
  void Load(const std::string& fixture) {
    std::ifstream file(fixture);
    const std::string sql{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(sql.empty()) << fixture;
    const absl::Status status = (*Database::Open(path_))->Execute(sql);
    ASSERT_TRUE(status.ok()) << status;
  }

  absl::StatusOr<std::unique_ptr<JobStore>> OpenStore() {
    return JobStore::Open(files_, path_, Clock::Real(),
                          [](const std::string&) {});
  }

  std::string KeptPath() const {
    return absl::StrCat(path_, ".before-v", SchemaVersion());
  }

  const std::string folder_ = testing::TempDir() + "/schema_test";
  const std::string path_ = folder_ + "/hearth.db";
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
};

TEST_F(SchemaTest, AnEmptyDatabaseGetsTodaysTablesAndNoCopy) {
  const auto database = *Database::Open(path_);
  ASSERT_TRUE(UpdateSchema(files_, *database).ok());
  EXPECT_EQ(Query(*database, "PRAGMA user_version"), SchemaVersion());
  EXPECT_FALSE(fs::exists(KeptPath()));
}

TEST_F(SchemaTest, JobsAndEventsOfVersion1AreThereAfterwards) {
  Load(kVersion1);
  const auto store = OpenStore();
  ASSERT_TRUE(store.ok()) << store.status();
  const auto trained = (*store)->Get("train-2");
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(trained->state(), v1::SUCCEEDED);
  EXPECT_EQ(trained->spec().train().data().dataset(), "planted");
  EXPECT_EQ(trained->report().train().epochs_size(), 1);
  EXPECT_EQ((*store)->Get("import-3")->error().code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ((*store)->Get("train-4")->state(), v1::RUNNING);
  EXPECT_EQ((*store)->Get("train-5")->state(), v1::QUEUED);
  const auto events = (*store)->ReadEvents("train-2", 1, 100);
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(events->events.size(), 8u);
  EXPECT_EQ(events->events.back().state().state(), v1::SUCCEEDED);
  ASSERT_TRUE((*store)->RecoverInterrupted(3).ok());
  EXPECT_EQ((*store)->Get("train-4")->state(), v1::QUEUED);
  v1::JobSpec spec;
  spec.mutable_train();
  EXPECT_EQ((*store)->Submit("", spec)->id(), "train-6");
}

TEST_F(SchemaTest, ColumnsOfVersion2HaveTheirDefaults) {
  Load(kVersion1);
  ASSERT_TRUE(OpenStore().ok());
  const auto database = *Database::Open(path_);
  EXPECT_EQ(Query(*database,
                  "SELECT COUNT(*) FROM jobs WHERE interruptions = 0 AND "
                  "priority = 0 AND waiting_reason = ''"),
            5);
}

TEST_F(SchemaTest, JobsOfVersion2AreCounted) {
  Load(kVersion1);
  const auto store = OpenStore();
  const auto counts = (*store)->CountByState();
  EXPECT_EQ(counts->at(v1::SUCCEEDED), 2);
  EXPECT_EQ(counts->at(v1::FAILED), 1);
  EXPECT_EQ(counts->at(v1::RUNNING), 1);
  EXPECT_EQ(counts->at(v1::QUEUED), 1);
}

TEST_F(SchemaTest, JobsOfVersion6HaveNoOwnerAndThereAreNoTokens) {
  Load(kVersion6);
  const auto store = OpenStore();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*(*store)->GetOwner("train-2"), "");
  const auto trial = (*store)->Get("train-6");
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ(trial->sweep(), "sweep-1");
  EXPECT_EQ(trial->trial(), 2u);
  EXPECT_TRUE(trial->held());
  EXPECT_EQ(trial->priority(), 5);
  const auto counts = (*store)->CountByState();
  EXPECT_EQ(counts->at(v1::QUEUED), 2);
  const auto database = *Database::Open(path_);
  EXPECT_EQ(Query(*database, "SELECT COUNT(*) FROM tokens"), 0);
  v1::JobSpec spec;
  spec.mutable_train();
  const auto job = (*store)->Submit("", spec, 0, {.owner = "token:ann"});
  EXPECT_EQ(job->owner(), "token:ann");
  EXPECT_EQ(*(*store)->GetOwner(job->id()), "token:ann");
}

TEST_F(SchemaTest, TheDatabaseBeforeIsKept) {
  Load(kVersion1);
  ASSERT_TRUE(OpenStore().ok());
  const auto before = *Database::Open(KeptPath());
  EXPECT_EQ(Query(*before, "PRAGMA user_version"), 1);
  EXPECT_EQ(Query(*before, "SELECT COUNT(*) FROM events"), 25);
  EXPECT_FALSE(fs::exists(KeptPath() + ".tmp"));
  // A start with nothing to migrate copies nothing.
  fs::remove(KeptPath());
  ASSERT_TRUE(OpenStore().ok());
  EXPECT_FALSE(fs::exists(KeptPath()));
}

TEST_F(SchemaTest, WithoutTheCopyNothingIsMigrated) {
  Load(kVersion1);
  for (const io::Operation operation :
       {io::Operation::kRename, io::Operation::kSyncDirectory}) {
    files_.Inject({.only = operation});
    EXPECT_FALSE(OpenStore().ok());
    EXPECT_EQ(files_.hits(), 1);
    EXPECT_EQ(Query(**Database::Open(path_), "PRAGMA user_version"), 1);
  }
  files_.Clear();
  const auto store = OpenStore();
  EXPECT_TRUE(store.ok()) << store.status();
}

TEST_F(SchemaTest, ANewerVersionIsRefusedUntouched) {
  const int newer = SchemaVersion() + 1;
  ASSERT_TRUE((*Database::Open(path_))
                  ->Execute(absl::StrCat("PRAGMA user_version = ", newer))
                  .ok());
  const auto store = OpenStore();
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr(path_));
  EXPECT_EQ(Query(**Database::Open(path_), "PRAGMA user_version"), newer);
  EXPECT_FALSE(fs::exists(KeptPath()));
}

}  // namespace
}  // namespace hearth::server
