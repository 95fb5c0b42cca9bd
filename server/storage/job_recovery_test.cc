// Starts with a database and folders of jobs that do not match.
#include "server/storage/job_recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec TrainSpec(const std::string& dataset) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset(dataset);
  return spec;
}

class JobRecoveryTest : public testing::Test {
 protected:
  JobRecoveryTest() {
    fs::remove_all(path_);
    fs::create_directories(path_ + "/jobs");
    Open();
  }

  void Open() {
    store_.reset();
    auto store =
        JobStore::Open(files_, Database(), Clock::Real(),
                       [](const std::string&) {}, {.folders = &folders_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(store_->RecoverInterrupted(3).ok());
  }

  // Opens the store after its database was lost.
  void OpenWithoutDatabase() {
    store_.reset();
    for (const char* suffix : {"", "-wal", "-shm"}) {
      fs::remove(Database() + suffix);
    }
    Open();
  }

  std::string Submit(const v1::JobSpec& spec, const std::string& request = "") {
    const auto job = store_->Submit(request, spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return job->id();
  }

  void Move(const std::string& id, const StateUpdate& update) {
    const absl::Status status = store_->ChangeState(id, update);
    EXPECT_TRUE(status.ok()) << status;
  }

  void Run(const std::string& id) {
    Move(id, {.state = v1::PREPARING});
    Move(id, {.state = v1::RUNNING});
  }

  void Succeed(const std::string& id, const std::string& digest) {
    Run(id);
    StateUpdate update{.state = v1::SUCCEEDED};
    update.report.emplace().mutable_train()->set_loss_digest(digest);
    Move(id, update);
  }

  void Fail(const std::string& id, const std::string& message) {
    Run(id);
    StateUpdate update{.state = v1::FAILED};
    update.error.emplace().set_message(message);
    Move(id, update);
  }

  std::string Database() const { return path_ + "/hearth.db"; }

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

  void Execute(const std::string& sql) {
    const absl::Status status =
        (*hearth::server::Database::Open(Database()))->Execute(sql);
    ASSERT_TRUE(status.ok()) << status;
  }

  const std::string path_ = testing::TempDir() + "/job_recovery_test";
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  JobFolders folders_{files_, path_};
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobRecoveryTest, AnUndisturbedStartWarnsOfNothing) {
  Succeed(Submit(TrainSpec("a")), "d1");
  Open();
  EXPECT_THAT(store_->warnings(), IsEmpty());
}

TEST_F(JobRecoveryTest, WithoutADatabaseAllJobsAreListedAgain) {
  const std::string succeeded = Submit(TrainSpec("a"), "request-1");
  Succeed(succeeded, "d1");
  const std::string failed = Submit(TrainSpec("b"));
  Fail(failed, "features.npy: damaged");
  const v1::Job before = *store_->Get(succeeded);
  OpenWithoutDatabase();
  const auto job = store_->Get(succeeded);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::SUCCEEDED);
  EXPECT_EQ(job->spec().train().data().dataset(), "a");
  EXPECT_EQ(job->report().train().loss_digest(), "d1");
  EXPECT_EQ(job->create_time().nanos(), before.create_time().nanos());
  EXPECT_EQ(job->start_time().nanos(), before.start_time().nanos());
  EXPECT_EQ(job->end_time().nanos(), before.end_time().nanos());
  EXPECT_GT(job->last_sequence(), before.last_sequence());
  EXPECT_EQ(store_->Get(failed)->error().message(), "features.npy: damaged");
  EXPECT_EQ(store_->Submit("request-1", TrainSpec("a"))->id(), succeeded);
  EXPECT_THAT(store_->warnings(),
              ElementsAre(HasSubstr("2 jobs that the database did not have")));
  Open();
  EXPECT_THAT(store_->warnings(), IsEmpty());
}

TEST_F(JobRecoveryTest, JobsKeepWhereTheyCameFromWithoutADatabase) {
  const std::string id =
      store_
          ->Submit("", TrainSpec("a"), 0,
                   {.owner = "token:ann", .trace_id = "4bf9"})
          ->id();
  OpenWithoutDatabase();
  EXPECT_EQ(*store_->GetOwner(id), "token:ann");
  EXPECT_EQ(store_->Get(id)->trace_id(), "4bf9");
}

TEST_F(JobRecoveryTest, JobsThatHadNotEndedAreQueuedAgain) {
  const std::string queued = Submit(TrainSpec("a"));
  const std::string running = Submit(TrainSpec("b"));
  Run(running);
  v1::JobEvent epoch;
  epoch.mutable_epoch()->set_epoch(1);
  ASSERT_TRUE(store_->Append(running, epoch).ok());
  const uint64_t seen = store_->Get(running)->last_sequence();
  OpenWithoutDatabase();
  EXPECT_EQ(store_->Get(queued)->state(), v1::QUEUED);
  EXPECT_EQ(store_->Get(running)->state(), v1::QUEUED);
  const auto jobs = store_->Unended();
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].id(), queued);
  // A watch that saw the lost events goes on without a gap.
  const auto batch = store_->ReadEvents(running, seen + 1, 9);
  ASSERT_EQ(batch->events.size(), 2u);
  EXPECT_THAT(batch->events[0].log().text(), HasSubstr("lost"));
  EXPECT_EQ(batch->events[1].state().state(), v1::QUEUED);
  Succeed(running, "d2");
  EXPECT_EQ(store_->Get(running)->report().train().loss_digest(), "d2");
}

TEST_F(JobRecoveryTest, EndsOfWatchesComeAfterARecovery) {
  const std::string id = Submit(TrainSpec("a"));
  Fail(id, "x");
  const uint64_t seen = store_->Get(id)->last_sequence();
  OpenWithoutDatabase();
  const auto batch = store_->ReadEvents(id, seen + 1, 9);
  ASSERT_EQ(batch->events.size(), 2u);
  EXPECT_EQ(batch->events[1].state().state(), v1::FAILED);
  EXPECT_EQ(batch->events[1].state().error().message(), "x");
  EXPECT_TRUE(batch->is_last);
}

TEST_F(JobRecoveryTest, NumbersNeverComeBack) {
  Submit(TrainSpec("a"));
  const std::string deleted = Submit(TrainSpec("b"));
  Fail(deleted, "x");
  ASSERT_TRUE(store_->Delete(deleted).ok());
  fs::remove_all(path_ + "/jobs/" + deleted);
  OpenWithoutDatabase();
  EXPECT_FALSE(store_->Get(deleted).ok());
  EXPECT_EQ(Submit(TrainSpec("c")), "train-3");
  Write("jobs/train-41/checkpoint", "x");
  OpenWithoutDatabase();
  EXPECT_EQ(Submit(TrainSpec("d")), "train-42");
}

TEST_F(JobRecoveryTest, FoldersOfNoJobGoToLostAndFound) {
  Write("jobs/train-7/model/model.safetensors", "weights");
  Write("jobs/what/x", "x");
  Write("jobs/train-8/job.json", "{}");
  Open();
  EXPECT_EQ(Read("lost+found/train-7/model/model.safetensors"), "weights");
  EXPECT_EQ(Read("lost+found/what/x"), "x");
  EXPECT_EQ(Read("lost+found/train-8/job.json"), "{}");
  EXPECT_TRUE(fs::is_empty(path_ + "/jobs"));
  EXPECT_EQ(store_->warnings().size(), 3u);
  EXPECT_EQ(Submit(TrainSpec("a")), "train-9");
  // A second folder of the same name does not replace the first.
  Write("jobs/train-7/model/model.safetensors", "others");
  Open();
  EXPECT_EQ(Read("lost+found/train-7/model/model.safetensors"), "weights");
  EXPECT_EQ(Read("lost+found/train-7.2/model/model.safetensors"), "others");
}

// The daemon was killed while it took a job, before it answered.
TEST_F(JobRecoveryTest, FoldersInWhichNothingWasFinishedAreRemoved) {
  fs::create_directories(path_ + "/jobs/train-7");
  Write("jobs/train-8/job.json.tmp", "{");
  Open();
  EXPECT_TRUE(fs::is_empty(path_ + "/jobs"));
  EXPECT_FALSE(Exists("lost+found"));
  EXPECT_THAT(store_->warnings(), IsEmpty());
  EXPECT_EQ(Submit(TrainSpec("a")), "train-9");
}

TEST_F(JobRecoveryTest, FilesOfNobodyGoToLostAndFound) {
  Write("jobs/notes", "x");
  Open();
  EXPECT_EQ(Read("lost+found/notes"), "x");
  EXPECT_THAT(
      store_->warnings(),
      ElementsAre(HasSubstr("jobs/notes belongs to no job and is now")));
}

TEST_F(JobRecoveryTest, AStartNeedsNoSpace) {
  const std::string id = Submit(TrainSpec("a"));
  Fail(id, "x");
  ASSERT_TRUE(store_->Delete(id).ok());
  Write("jobs/train-8/model", "x");
  store_.reset();
  files_.LimitSpace(0);
  files_.Inject({.for_good = true,
                 .status = absl::ResourceExhaustedError("no space"),
                 .only = io::Operation::kCreateDirectory});
  Open();
  EXPECT_THAT(store_->warnings(),
              ElementsAre(HasSubstr("train-8 belongs to no job and stays: ")));
  EXPECT_TRUE(Exists("jobs/train-8/model"));
  EXPECT_EQ(Submit(TrainSpec("b")), "train-9");
}

// The copy is serialized until the job begins, and readable JSON afterwards.
TEST_F(JobRecoveryTest, ADamagedCopyIsNotBelieved) {
  std::string text;
  for (const bool has_begun : {false, true}) {
    const std::string id = Submit(TrainSpec("a"));
    if (has_begun) Run(id);
    const std::string name = absl::StrCat("jobs/", id, "/job.json");
    text = Read(name);
    EXPECT_EQ(text.find("\"a\"") != std::string::npos, has_begun) << text;
    const std::string key = has_begun ? "\"dataset\": \"" : "\"job\": \"";
    const size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos) << text;
    std::string damaged = text;
    damaged[at + key.size()] = 'b';
    ASSERT_NE(damaged, text);
    Write(name, damaged);
    OpenWithoutDatabase();
    EXPECT_FALSE(store_->Get(id).ok());
    EXPECT_EQ(Read(absl::StrCat("lost+found/", id, "/job.json")), damaged);
  }
  // A copy in the folder of another job is not believed either.
  Write("jobs/train-5/job.json", text);
  Open();
  EXPECT_FALSE(store_->Get("train-5").ok());
  EXPECT_TRUE(Exists("lost+found/train-5/job.json"));
}

TEST_F(JobRecoveryTest, ADeletionIsBroughtToItsEnd) {
  const std::string id = Submit(TrainSpec("a"));
  Fail(id, "x");
  ASSERT_TRUE(store_->Delete(id).ok());
  // The daemon was killed before it removed the folder.
  EXPECT_TRUE(Exists(absl::StrCat("jobs/", id, "/deleted.json")));
  OpenWithoutDatabase();
  EXPECT_FALSE(store_->Get(id).ok());
  EXPECT_FALSE(Exists("jobs/" + id));
  EXPECT_FALSE(Exists("lost+found"));
}

TEST_F(JobRecoveryTest, AFullDiskDoesNotKeepFromDeleting) {
  const std::string id = Submit(TrainSpec("a"));
  Fail(id, "x");
  files_.LimitSpace(0);
  EXPECT_TRUE(store_->Delete(id).ok());
  EXPECT_FALSE(store_->Get(id).ok());
}

TEST_F(JobRecoveryTest, CopiesThatCouldNotBeWrittenAreMadeAtTheNextStart) {
  const std::string kept = Submit(TrainSpec("a"));
  files_.Inject({.for_good = true, .only = io::Operation::kCreate});
  const std::string missing = Submit(TrainSpec("b"));
  absl::SleepFor(absl::Milliseconds(50));
  Fail(kept, "x");
  files_.Clear();
  EXPECT_FALSE(folders_.Read(missing).ok());
  EXPECT_EQ(folders_.Read(kept)->job.state(), v1::QUEUED);
  Open();
  EXPECT_EQ(folders_.Read(missing)->job.state(), v1::QUEUED);
  EXPECT_EQ(folders_.Read(kept)->job.state(), v1::FAILED);
  EXPECT_THAT(store_->warnings(), IsEmpty());
}

TEST_F(JobRecoveryTest, ADamagedRowIsTakenFromItsFolder) {
  const std::string id = Submit(TrainSpec("a"), "request");
  Succeed(id, "d1");
  const std::string other = Submit(TrainSpec("b"));
  store_.reset();
  Execute("UPDATE jobs SET spec = X'FF' WHERE number = 1");
  Open();
  EXPECT_EQ(store_->Get(id)->report().train().loss_digest(), "d1");
  EXPECT_EQ(store_->Submit("request", TrainSpec("a"))->id(), id);
  EXPECT_EQ(store_->Get(other)->state(), v1::QUEUED);
  EXPECT_THAT(store_->warnings(),
              ElementsAre(HasSubstr("1 row of "), HasSubstr("1 job that")));
  // The warning stays until somebody has looked.
  Open();
  EXPECT_THAT(store_->warnings(), ElementsAre(HasSubstr("damaged_rows")));
}

TEST_F(JobRecoveryTest, ADamagedRowWithoutACopyIsSetAside) {
  const std::string id = Submit(TrainSpec("a"));
  const std::string other = Submit(TrainSpec("b"));
  fs::remove_all(path_ + "/jobs/" + id);
  for (const char* damage :
       {"state = 77", "spec = X'FF'", "kind = 'import'", "report = X'FF'"}) {
    store_.reset();
    Execute(absl::StrCat("UPDATE jobs SET ", damage, " WHERE number = 1"));
    Open();
    EXPECT_FALSE(store_->Get(id).ok()) << damage;
    EXPECT_TRUE(store_->List({}).ok()) << damage;
    EXPECT_EQ(store_->CountByState()->at(v1::QUEUED), 1) << damage;
    Execute(
        "INSERT INTO jobs (number, kind, state, spec, create_ns) SELECT 1, "
        "kind, state, spec, 1 FROM jobs WHERE number = 2");
  }
  EXPECT_EQ(store_->Get(other)->state(), v1::QUEUED);
}

TEST_F(JobRecoveryTest, AFileThatIsNoDatabaseIsSetAside) {
  const std::string id = Submit(TrainSpec("a"));
  store_.reset();
  Write("hearth.db", std::string(8192, 'x'));
  Open();
  EXPECT_EQ(store_->Get(id)->state(), v1::QUEUED);
  ASSERT_EQ(store_->warnings().size(), 2u);
  EXPECT_THAT(store_->warnings()[0], HasSubstr("hearth.db.damaged-"));
  int kept = 0;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("hearth.db.damaged-")) {
      ++kept;
      EXPECT_EQ(Read(name), std::string(8192, 'x'));
    }
  }
  EXPECT_EQ(kept, 1);
}

TEST_F(JobRecoveryTest, ADatabaseWithADamagedPageIsSetAside) {
  for (int i = 0; i < 50; ++i) Submit(TrainSpec(absl::StrCat("a", i)));
  store_.reset();
  Execute("PRAGMA wal_checkpoint(TRUNCATE)");
  {
    std::fstream file(Database(), std::ios::in | std::ios::out);
    // A page in the middle, after header and schema.
    file.seekp(5 * 4096);
    file << std::string(4096, '\x5a');
  }
  Open();
  EXPECT_EQ(store_->CountByState()->at(v1::QUEUED), 50);
  EXPECT_THAT(store_->warnings(),
              ElementsAre(HasSubstr("damaged"), HasSubstr("50 jobs")));
}

TEST_F(JobRecoveryTest, AnUnreachableDatabaseIsNotTakenForADamagedOne) {
  store_.reset();
  fs::remove(Database());
  fs::create_directory(Database());
  EXPECT_FALSE(
      JobStore::Open(files_, Database(), Clock::Real(), [](const std::string&) {
      }).ok());
  EXPECT_TRUE(fs::is_directory(Database()));
}

}  // namespace
}  // namespace hearth::server
