#include "server/storage/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/io/file_system.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_recovery.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_state.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::JobSpec TrainSpec(const std::string& dataset) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset(dataset);
  return spec;
}

v1::JobSpec ImportSpec(const std::string& name) {
  v1::JobSpec spec;
  spec.mutable_import()->set_name(name);
  return spec;
}

v1::JobEvent LogEvent(const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_text(text);
  return event;
}

v1::EpochReport Epoch(uint32_t number) {
  v1::EpochReport epoch;
  epoch.set_epoch(number);
  return epoch;
}

v1::ResumeJobRequest ResumeRequest(const std::string& request_id,
                                   const std::string& id) {
  v1::ResumeJobRequest request;
  request.set_request_id(request_id);
  request.set_id(id);
  return request;
}

v1::JobEvent ProgressEvent(uint64_t done) {
  v1::JobEvent event;
  event.mutable_progress()->set_done(done);
  return event;
}

std::string FreshPath(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name, ".db");
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::remove(absl::StrCat(path, suffix).c_str());
  }
  return path;
}

std::unique_ptr<JobStore> OpenStore(const std::string& path) {
  auto store = JobStore::Open(io::FileSystem::Posix(), path, Clock::Real(),
                              [](const std::string&) {});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

class JobStoreTest : public testing::Test {
 protected:
  void Reopen() {
    store_.reset();
    store_ = OpenStore(path_);
  }

  std::string Submit(const v1::JobSpec& spec) {
    const auto job = store_->Submit("", spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return job->id();
  }

  absl::Status Move(const std::string& id, v1::JobState state) {
    StateUpdate update;
    update.state = state;
    return store_->ChangeState(id, update);
  }

  void Finish(const std::string& id, v1::JobState state) {
    ASSERT_TRUE(Move(id, v1::PREPARING).ok());
    ASSERT_TRUE(Move(id, v1::RUNNING).ok());
    ASSERT_TRUE(Move(id, state).ok());
  }

  v1::JobState StateOf(const std::string& id) {
    return store_->Get(id)->state();
  }

  const std::string path_ =
      FreshPath(testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<JobStore> store_ = OpenStore(path_);
};

TEST_F(JobStoreTest, IdsNameTheKindAndNeverComeBack) {
  EXPECT_EQ(Submit(ImportSpec("a")), "import-1");
  EXPECT_EQ(Submit(TrainSpec("a")), "train-2");
  Finish("train-2", v1::SUCCEEDED);
  ASSERT_TRUE(store_->Delete("train-2").ok());
  Reopen();
  EXPECT_EQ(Submit(TrainSpec("a")), "train-3");
}

TEST_F(JobStoreTest, JobsSurviveReopening) {
  const std::string id = Submit(TrainSpec("wordnet"));
  Finish(id, v1::SUCCEEDED);
  Reopen();
  const auto job = store_->Get(id);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::SUCCEEDED);
  EXPECT_EQ(job->spec().train().data().dataset(), "wordnet");
  EXPECT_EQ(job->last_sequence(), 4u);
  EXPECT_GE(job->start_time().seconds(), job->create_time().seconds());
  EXPECT_GE(job->end_time().seconds(), job->start_time().seconds());
  EXPECT_GT(job->create_time().seconds(), 0);
}

TEST_F(JobStoreTest, UnknownIdsAreNotFound) {
  Submit(TrainSpec("a"));
  for (const char* id :
       {"", "train", "train-", "train-2", "import-1", "-1", "train-01",
        "train-+1", "train-1 ", "1", "a-b-c", "train-99999999999999999999"}) {
    EXPECT_TRUE(absl::IsNotFound(store_->Get(id).status())) << id;
    EXPECT_TRUE(absl::IsNotFound(store_->Append(id, LogEvent("x")))) << id;
    EXPECT_TRUE(absl::IsNotFound(store_->Delete(id))) << id;
    EXPECT_TRUE(absl::IsNotFound(store_->RequestCancel(id))) << id;
    EXPECT_TRUE(absl::IsNotFound(Move(id, v1::PREPARING))) << id;
    EXPECT_TRUE(absl::IsNotFound(store_->ReadEvents(id, 1, 9).status())) << id;
  }
}

TEST_F(JobStoreTest, ARepeatedRequestGivesTheSameJob) {
  const auto first = store_->Submit("request", TrainSpec("a"));
  Reopen();
  const auto again = store_->Submit("request", TrainSpec("a"));
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->id(), again->id());
  const auto found = store_->FindRequest("request", TrainSpec("a"));
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->id(), first->id());
  EXPECT_NE(store_->Submit("other", TrainSpec("a"))->id(), first->id());
  EXPECT_EQ(store_->CountByState()->at(v1::QUEUED), 2);
}

TEST_F(JobStoreTest, ARequestIdWithAnotherSpecIsRefused) {
  ASSERT_TRUE(store_->Submit("request", TrainSpec("a")).ok());
  const auto other = store_->Submit("request", TrainSpec("b"));
  EXPECT_TRUE(absl::IsAlreadyExists(other.status()));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("train-1"));
  EXPECT_TRUE(absl::IsAlreadyExists(
      store_->FindRequest("request", TrainSpec("b")).status()));
}

TEST_F(JobStoreTest, ARepeatedRequestGivesAJobWhoseFirstEpochKeyWasSet) {
  v1::JobSpec spec = TrainSpec("a");
  spec.mutable_train()->set_join(true);
  const std::string id = store_->Submit("request", spec)->id();
  ASSERT_TRUE(store_->SetFirstEpochKey(id, 3).ok());
  Reopen();
  EXPECT_EQ(store_->Get(id)->spec().train().data().first_epoch_key(), 3u);
  EXPECT_EQ(store_->Submit("request", spec)->id(), id);
  spec.mutable_train()->mutable_data()->set_batch_size(7);
  EXPECT_TRUE(absl::IsAlreadyExists(store_->Submit("request", spec).status()));
}

TEST_F(JobStoreTest, ARepeatedRequestGivesATestWhoseTrainSpecWasSet) {
  v1::JobSpec asked;
  asked.mutable_evaluate()->set_job_id("train-7");
  v1::JobSpec filled = asked;
  *filled.mutable_evaluate()->mutable_train() = TrainSpec("a").train();
  const std::string id = store_->Submit("request", filled)->id();
  EXPECT_EQ(id, "evaluate-1");
  EXPECT_EQ((*store_->FindRequest("request", asked))->id(), id);
  EXPECT_EQ(store_->Submit("request", filled)->id(), id);
  asked.mutable_evaluate()->set_job_id("train-8");
  EXPECT_TRUE(
      absl::IsAlreadyExists(store_->FindRequest("request", asked).status()));
}

TEST_F(JobStoreTest, WithoutRequestIdEveryCallSubmits) {
  EXPECT_NE(Submit(TrainSpec("a")), Submit(TrainSpec("a")));
  EXPECT_FALSE(store_->FindRequest("", TrainSpec("a"))->has_value());
}

TEST_F(JobStoreTest, EventsAreNumberedFromOneWithinTheJob) {
  const std::string one = Submit(TrainSpec("a"));
  const std::string two = Submit(TrainSpec("b"));
  ASSERT_TRUE(store_->Append(two, LogEvent("hello")).ok());
  ASSERT_TRUE(store_->Append(one, LogEvent("x")).ok());
  const auto batch = store_->ReadEvents(two, 0, 100);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->events.size(), 2u);
  EXPECT_EQ(batch->events[0].sequence(), 1u);
  EXPECT_EQ(batch->events[0].state().state(), v1::QUEUED);
  EXPECT_EQ(batch->events[1].sequence(), 2u);
  EXPECT_EQ(batch->events[1].log().text(), "hello");
  EXPECT_GT(batch->events[1].time().seconds(), 0);
  EXPECT_FALSE(batch->is_last);
}

TEST_F(JobStoreTest, EventsAreReadInPiecesUntilTheLast) {
  const std::string id = Submit(TrainSpec("a"));
  Finish(id, v1::FAILED);
  auto batch = store_->ReadEvents(id, 2, 2);
  ASSERT_EQ(batch->events.size(), 2u);
  EXPECT_EQ(batch->events[0].sequence(), 2u);
  EXPECT_FALSE(batch->is_last);
  batch = store_->ReadEvents(id, 4, 2);
  ASSERT_EQ(batch->events.size(), 1u);
  EXPECT_TRUE(batch->is_last);
  for (const uint64_t beyond : {uint64_t{5}, UINT64_MAX}) {
    batch = store_->ReadEvents(id, beyond, 2);
    EXPECT_TRUE(batch->events.empty());
    EXPECT_TRUE(batch->is_last);
  }
}

TEST_F(JobStoreTest, StatesChangeWithTheirEvent) {
  const std::string id = Submit(TrainSpec("a"));
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  StateUpdate failed;
  failed.state = v1::FAILED;
  failed.error.emplace().set_message("features.npy: damaged");
  ASSERT_TRUE(store_->ChangeState(id, failed).ok());
  const auto job = store_->Get(id);
  EXPECT_EQ(job->error().message(), "features.npy: damaged");
  const auto batch = store_->ReadEvents(id, job->last_sequence(), 1);
  EXPECT_EQ(batch->events[0].state().state(), v1::FAILED);
  EXPECT_EQ(batch->events[0].state().error().message(),
            "features.npy: damaged");
}

TEST_F(JobStoreTest, AForbiddenStepChangesNothing) {
  const std::string id = Submit(TrainSpec("a"));
  const absl::Status status = Move(id, v1::SUCCEEDED);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("QUEUED"));
  EXPECT_EQ(StateOf(id), v1::QUEUED);
  EXPECT_EQ(store_->Get(id)->last_sequence(), 1u);
}

TEST_F(JobStoreTest, AReportHasTheEpochsSoFar) {
  const std::string id = Submit(TrainSpec("a"));
  EXPECT_FALSE(store_->Get(id)->has_report());
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  ASSERT_TRUE(Move(id, v1::RUNNING).ok());
  ASSERT_TRUE(store_->AppendEpoch(id, Epoch(1)).ok());
  ASSERT_TRUE(store_->Append(id, LogEvent("x")).ok());
  ASSERT_TRUE(store_->AppendEpoch(id, Epoch(2)).ok());
  EXPECT_EQ(store_->Get(id)->report().train().epochs_size(), 2);
  EXPECT_EQ(store_->Get(id)->report().train().epochs(1).epoch(), 2u);
  StateUpdate succeeded;
  succeeded.state = v1::SUCCEEDED;
  succeeded.report.emplace().mutable_train()->set_loss_digest("d1");
  ASSERT_TRUE(store_->ChangeState(id, succeeded).ok());
  EXPECT_EQ(store_->Get(id)->report().train().loss_digest(), "d1");
  EXPECT_EQ(store_->Get(id)->report().train().epochs_size(), 2);
  EXPECT_EQ(store_->Unended()->size(), 0u);
}

TEST_F(JobStoreTest, AnEpochThatIsReportedAgainIsKeptOnce) {
  const std::string id = Submit(TrainSpec("a"));
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  for (const uint32_t epoch : {1u, 2u, 1u, 2u, 3u}) {
    ASSERT_TRUE(store_->AppendEpoch(id, Epoch(epoch)).ok());
  }
  const v1::TrainReport report = store_->Get(id)->report().train();
  ASSERT_EQ(report.epochs_size(), 3);
  EXPECT_EQ(report.epochs(2).epoch(), 3u);
  EXPECT_EQ(store_->Get(id)->last_sequence(), 5u);
  EXPECT_TRUE(absl::IsNotFound(store_->AppendEpoch("train-9", Epoch(1))));
}

TEST_F(JobStoreTest, TheFirstJobThatUsesAThingIsFoundUntilItHasEnded) {
  const std::string a = DatasetUse("a");
  EXPECT_EQ(*store_->FindUser(a), "");
  const std::string first = Submit(TrainSpec("a"));
  const std::string second = Submit(TrainSpec("a"));
  Submit(TrainSpec("b"));
  EXPECT_EQ(*store_->FindUser(a), first);
  Finish(first, v1::FAILED);
  EXPECT_EQ(*store_->FindUser(a), second);
  Finish(second, v1::SUCCEEDED);
  EXPECT_EQ(*store_->FindUser(a), "");
  ASSERT_TRUE(store_->Resume(ResumeRequest("", first), TrainSpec("a")).ok());
  EXPECT_EQ(*store_->FindUser(a), first);
  Reopen();
  EXPECT_EQ(*store_->FindUser(a), first);
  ASSERT_TRUE(Move(first, v1::CANCELLED).ok());
  EXPECT_EQ(*store_->FindUser(a), "");
}

TEST_F(JobStoreTest, UsersOfModelsAndUploadsAreFound) {
  v1::JobSpec evaluate;
  evaluate.mutable_evaluate()->set_job_id("train-7");
  *evaluate.mutable_evaluate()->mutable_train() = TrainSpec("a").train();
  const std::string evaluates = Submit(evaluate);
  EXPECT_EQ(*store_->FindUser(ModelUse("train-7")), evaluates);
  EXPECT_EQ(*store_->FindUser(DatasetUse("a")), evaluates);
  EXPECT_EQ(*store_->FindUser(ModelUse("train-70")), "");
  v1::JobSpec import = ImportSpec("c");
  import.mutable_import()->set_upload("u1");
  const std::string imports = Submit(import);
  EXPECT_EQ(*store_->FindUser(UploadUse("u1")), imports);
  EXPECT_EQ(*store_->FindUser(DatasetUse("c")), imports);
}

TEST_F(JobStoreTest, AChangeThatIsRolledBackChangesNoUser) {
  const std::string id = Submit(TrainSpec("a"));
  const absl::Status undone = store_->Transact(
      [&](Database&, JobRows& rows, ChangedJobs&) -> absl::Status {
        EXPECT_TRUE(rows.Insert("", TrainSpec("b"), 0).ok());
        StateUpdate cancelled;
        cancelled.state = v1::CANCELLED;
        EXPECT_TRUE(rows.Move(id, cancelled).ok());
        EXPECT_EQ(*rows.FindUser(DatasetUse("a")), "");
        return absl::AbortedError("undone");
      });
  ASSERT_TRUE(absl::IsAborted(undone)) << undone;
  EXPECT_EQ(*store_->FindUser(DatasetUse("a")), id);
  EXPECT_EQ(*store_->FindUser(DatasetUse("b")), "");
}

TEST_F(JobStoreTest, RecoveryPutsInterruptedJobsBack) {
  const std::string queued = Submit(TrainSpec("a"));
  const std::string preparing = Submit(TrainSpec("b"));
  const std::string running = Submit(TrainSpec("c"));
  const std::string done = Submit(TrainSpec("d"));
  const std::string doomed = Submit(TrainSpec("e"));
  for (const std::string& id : {preparing, running, doomed}) {
    ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  }
  ASSERT_TRUE(Move(running, v1::RUNNING).ok());
  Finish(done, v1::SUCCEEDED);
  ASSERT_TRUE(store_->RequestCancel(doomed).ok());
  Reopen();
  ASSERT_TRUE(store_->RecoverInterrupted(3).ok());
  EXPECT_EQ(StateOf(preparing), v1::QUEUED);
  EXPECT_EQ(StateOf(running), v1::QUEUED);
  EXPECT_EQ(StateOf(done), v1::SUCCEEDED);
  EXPECT_EQ(StateOf(doomed), v1::CANCELLED);
  const auto batch = store_->ReadEvents(running, 4, 9);
  ASSERT_EQ(batch->events.size(), 1u);
  EXPECT_EQ(batch->events[0].state().state(), v1::QUEUED);
  // Numbers of progress that was lost with the power are not reused.
  EXPECT_GT(batch->events[0].sequence(), 1000u);
  EXPECT_GT(store_->Get(running)->start_time().seconds(), 0);
  std::vector<std::string> unended;
  const auto jobs = store_->Unended();
  for (const v1::Job& job : *jobs) unended.push_back(job.id());
  EXPECT_THAT(unended, ElementsAre(queued, preparing, running));
}

TEST_F(JobStoreTest, AJobFailsThatWasInterruptedTooOften) {
  const std::string id = Submit(TrainSpec("a"));
  // Runs the job until the daemon dies.
  const auto interrupt = [&](bool after_progress) {
    ASSERT_TRUE(Move(id, v1::PREPARING).ok());
    if (after_progress) {
      ASSERT_TRUE(store_->ForgetInterruptions(id).ok());
    }
    Reopen();
    ASSERT_TRUE(store_->RecoverInterrupted(3).ok());
  };
  interrupt(false);
  interrupt(false);
  interrupt(true);
  interrupt(false);
  EXPECT_EQ(StateOf(id), v1::QUEUED);
  interrupt(false);
  EXPECT_EQ(StateOf(id), v1::FAILED);
  const v1::JobError error = store_->Get(id)->error();
  EXPECT_EQ(error.code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("3 times in a row"), HasSubstr("resume " + id)));
  // A resumed job has as many tries again.
  ASSERT_TRUE(store_->Resume(ResumeRequest("", id), TrainSpec("a")).ok());
  interrupt(false);
  interrupt(false);
  EXPECT_EQ(StateOf(id), v1::QUEUED);
}

TEST_F(JobStoreTest, AStopIsNoInterruption) {
  const std::string id = Submit(TrainSpec("a"));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Move(id, v1::PREPARING).ok());
    ASSERT_TRUE(Move(id, v1::QUEUED).ok());
    Reopen();
    ASSERT_TRUE(store_->RecoverInterrupted(1).ok());
    EXPECT_EQ(StateOf(id), v1::QUEUED);
  }
}

TEST_F(JobStoreTest, AResumedJobIsQueuedWithItsEventsAndAnotherSpec) {
  const std::string id = Submit(TrainSpec("a"));
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  ASSERT_TRUE(store_->AppendEpoch(id, Epoch(1)).ok());
  ASSERT_TRUE(store_->RequestCancel(id).ok());
  StateUpdate failed;
  failed.state = v1::FAILED;
  failed.error.emplace().set_message("disk full");
  ASSERT_TRUE(store_->ChangeState(id, failed).ok());
  const uint64_t before = store_->Get(id)->last_sequence();

  v1::JobSpec spec = TrainSpec("a");
  spec.mutable_train()->set_checkpoint_every(7);
  const auto resumed = store_->Resume(ResumeRequest("r", id), spec);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->state(), v1::QUEUED);
  EXPECT_EQ(resumed->spec().train().checkpoint_every(), 7u);
  EXPECT_FALSE(resumed->has_error());
  EXPECT_FALSE(resumed->has_end_time());
  EXPECT_EQ(resumed->report().train().epochs_size(), 1);
  EXPECT_EQ(resumed->last_sequence(), before + 1);
  EXPECT_FALSE(store_->ReadEvents(id, 1, 99)->is_last);
  // The cancellation of the earlier run is forgotten.
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  Reopen();
  ASSERT_TRUE(store_->RecoverInterrupted(3).ok());
  EXPECT_EQ(StateOf(id), v1::QUEUED);
}

TEST_F(JobStoreTest, ARequestResumesOnce) {
  const std::string id = Submit(TrainSpec("a"));
  ASSERT_TRUE(Move(id, v1::CANCELLED).ok());
  EXPECT_FALSE(store_->FindResume(ResumeRequest("r", id))->has_value());
  ASSERT_TRUE(store_->Resume(ResumeRequest("r", id), TrainSpec("a")).ok());
  ASSERT_TRUE(Move(id, v1::CANCELLED).ok());
  Reopen();
  const auto again = store_->Resume(ResumeRequest("r", id), TrainSpec("a"));
  EXPECT_EQ(again->state(), v1::CANCELLED);
  EXPECT_EQ((*store_->FindResume(ResumeRequest("r", id)))->id(), id);
  v1::ResumeJobRequest other = ResumeRequest("r", id);
  *other.mutable_spec() = TrainSpec("b");
  EXPECT_TRUE(absl::IsAlreadyExists(store_->FindResume(other).status()));
  // Requests are forgotten with their job.
  ASSERT_TRUE(store_->Delete(id).ok());
  EXPECT_FALSE(store_->FindResume(ResumeRequest("r", id))->has_value());
}

TEST_F(JobStoreTest, OnlyAJobThatEndedInVainIsResumed) {
  const std::string id = Submit(TrainSpec("a"));
  const auto resume = [&] {
    return store_->Resume(ResumeRequest("", id), TrainSpec("a")).status();
  };
  EXPECT_EQ(resume().code(), absl::StatusCode::kFailedPrecondition);
  Finish(id, v1::SUCCEEDED);
  EXPECT_EQ(resume().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::IsNotFound(
      store_->Resume(ResumeRequest("", "train-9"), TrainSpec("a")).status()));
}

TEST_F(JobStoreTest, PagesHoldEveryJobOnceNewestFirst) {
  for (int i = 0; i < 7; ++i) Submit(TrainSpec("a"));
  JobQuery query;
  query.page_size = 3;
  std::vector<std::string> ids;
  int pages = 0;
  do {
    const auto page = store_->List(query);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const v1::Job& job : page->jobs) ids.push_back(job.id());
    // A job that is added in between does not shift the pages.
    Submit(TrainSpec("b"));
    query.page_token = page->next_page_token;
    ++pages;
  } while (!query.page_token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_THAT(ids, ElementsAre("train-7", "train-6", "train-5", "train-4",
                               "train-3", "train-2", "train-1"));
}

TEST_F(JobStoreTest, AFullLastPageHasNoToken) {
  Submit(TrainSpec("a"));
  Submit(TrainSpec("a"));
  JobQuery query;
  query.page_size = 2;
  EXPECT_EQ(store_->List(query)->next_page_token, "");
}

TEST_F(JobStoreTest, ListsByState) {
  const std::string one = Submit(TrainSpec("a"));
  Submit(TrainSpec("b"));
  const std::string three = Submit(TrainSpec("c"));
  Finish(one, v1::FAILED);
  Finish(three, v1::SUCCEEDED);
  JobQuery query;
  query.states = {v1::SUCCEEDED, v1::FAILED};
  const auto page = store_->List(query);
  ASSERT_EQ(page->jobs.size(), 2u);
  EXPECT_EQ(page->jobs[0].id(), three);
  EXPECT_EQ(page->jobs[1].id(), one);
  EXPECT_EQ(store_->CountByState()->at(v1::QUEUED), 1);
  EXPECT_EQ(store_->CountByState()->at(v1::RUNNING), 0);
}

TEST_F(JobStoreTest, LongReportsMakeShortPages) {
  for (int i = 0; i < 3; ++i) {
    const std::string id = Submit(TrainSpec("a"));
    ASSERT_TRUE(Move(id, v1::PREPARING).ok());
    ASSERT_TRUE(Move(id, v1::RUNNING).ok());
    StateUpdate update;
    update.state = v1::SUCCEEDED;
    update.report.emplace().mutable_train()->set_loss_digest(
        std::string(JobPage::kMaxPageBytes * 2 / 3, 'x'));
    ASSERT_TRUE(store_->ChangeState(id, update).ok());
  }
  JobQuery query;
  const auto page = store_->List(query);
  EXPECT_EQ(page->jobs.size(), 1u);
  EXPECT_NE(page->next_page_token, "");
}

TEST_F(JobStoreTest, BadQueriesAreRefused) {
  for (const char* token : {"x", "YmVsb3c6", "LTE=", "&&&"}) {
    JobQuery query;
    query.page_token = token;
    EXPECT_TRUE(absl::IsInvalidArgument(store_->List(query).status())) << token;
  }
  for (const int size : {0, -1, 1001}) {
    JobQuery query;
    query.page_size = size;
    EXPECT_TRUE(absl::IsInvalidArgument(store_->List(query).status())) << size;
  }
}

TEST_F(JobStoreTest, OnlyEndedJobsAreDeletedWithTheirEvents) {
  const std::string id = Submit(TrainSpec("a"));
  EXPECT_EQ(store_->Delete(id).code(), absl::StatusCode::kFailedPrecondition);
  Finish(id, v1::SUCCEEDED);
  ASSERT_TRUE(store_->Delete(id).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(id).status()));
  auto database = Database::Open(path_);
  auto count = (*database)->Prepare("SELECT COUNT(*) FROM events");
  ASSERT_TRUE(count->Step().ok());
  EXPECT_EQ(count->Int64(0), 0);
}

TEST_F(JobStoreTest, TheListenerHearsOfEveryEventOnce) {
  store_.reset();
  std::vector<std::string> heard;
  auto store =
      JobStore::Open(io::FileSystem::Posix(), path_, Clock::Real(),
                     [&](const std::string& id) { heard.push_back(id); });
  const std::string id = (*store)->Submit("", TrainSpec("a"))->id();
  ASSERT_TRUE((*store)->Append(id, LogEvent("x")).ok());
  StateUpdate update;
  update.state = v1::CANCELLED;
  ASSERT_TRUE((*store)->ChangeState(id, update).ok());
  EXPECT_FALSE((*store)->ChangeState(id, update).ok());
  EXPECT_THAT(heard, ElementsAre(id, id, id));
}

// Default VFS that counts syncs of files; SQLite calls it from one thread.
class CountingVfs {
 public:
  CountingVfs() {
    base_ = sqlite3_vfs_find(nullptr);
    vfs_ = *base_;
    vfs_.zName = "counting";
    vfs_.xOpen = Open;
    syncs_ = 0;
    EXPECT_EQ(sqlite3_vfs_register(&vfs_, 1), SQLITE_OK);
  }
  ~CountingVfs() {
    sqlite3_vfs_register(base_, 1);
    sqlite3_vfs_unregister(&vfs_);
  }
  static int64_t syncs() { return syncs_; }

 private:
  static int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file,
                  int flags, int* out_flags) {
    const int result = base_->xOpen(base_, name, file, flags, out_flags);
    if (result != SQLITE_OK) return result;
    base_sync_ = file->pMethods->xSync;
    // Databases have other methods than their logs.
    sqlite3_io_methods& counting = methods_[file->pMethods];
    counting = *file->pMethods;
    counting.xSync = [](sqlite3_file* synced, int sync_flags) {
      ++syncs_;
      return base_sync_(synced, sync_flags);
    };
    file->pMethods = &counting;
    return result;
  }

  static inline sqlite3_vfs* base_ = nullptr;
  static inline int (*base_sync_)(sqlite3_file*, int) = nullptr;
  static inline std::map<const sqlite3_io_methods*, sqlite3_io_methods>
      methods_;
  static inline int64_t syncs_ = 0;
  sqlite3_vfs vfs_;
};

TEST_F(JobStoreTest, ProgressIsNotSyncedAndAllElseIs) {
  store_.reset();
  const CountingVfs vfs;
  store_ = OpenStore(path_);
  const std::string id = Submit(TrainSpec("a"));
  int64_t before = CountingVfs::syncs();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store_->Append(id, ProgressEvent(i)).ok());
  }
  EXPECT_EQ(CountingVfs::syncs(), before);
  ASSERT_TRUE(store_->Append(id, LogEvent("x")).ok());
  EXPECT_GT(CountingVfs::syncs(), before);
  before = CountingVfs::syncs();
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  EXPECT_GT(CountingVfs::syncs(), before);
  store_.reset();
}

TEST_F(JobStoreTest, ProgressSurvivesTheEndOfTheProcess) {
  const std::string id = Submit(TrainSpec("a"));
  store_.reset();
  const pid_t child = fork();
  if (child == 0) {
    const auto store = OpenStore(path_);
    if (!store->Append(id, ProgressEvent(7)).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  store_ = OpenStore(path_);
  const auto batch = store_->ReadEvents(id, 2, 9);
  ASSERT_EQ(batch->events.size(), 1u);
  EXPECT_EQ(batch->events[0].progress().done(), 7u);
}

TEST_F(JobStoreTest, OldEventsGoButStatesAndEpochsStay) {
  store_ = *JobStore::Open(io::FileSystem::Posix(), path_, Clock::Real(),
                           [](const std::string&) {}, {.events_kept = 20});
  const std::string id = Submit(TrainSpec("a"));
  ASSERT_TRUE(Move(id, v1::PREPARING).ok());
  ASSERT_TRUE(Move(id, v1::RUNNING).ok());
  for (uint32_t epoch = 1; epoch <= 30; ++epoch) {
    ASSERT_TRUE(store_->Append(id, ProgressEvent(epoch)).ok());
    ASSERT_TRUE(store_->AppendEpoch(id, Epoch(epoch)).ok());
    ASSERT_TRUE(store_->Append(id, LogEvent("x")).ok());
  }
  int states = 0, epochs = 0, others = 0;
  const auto batch = store_->ReadEvents(id, 1, 1000);
  for (const v1::JobEvent& event : batch->events) {
    if (event.has_state()) {
      ++states;
    } else if (event.has_epoch()) {
      ++epochs;
    } else {
      ++others;
      EXPECT_GT(event.sequence(), 93u - 20 - 2);
    }
  }
  EXPECT_EQ(states, 3);
  EXPECT_EQ(epochs, 30);
  // One of three events is an epoch.
  EXPECT_GE(others, 20 * 2 / 3);
  EXPECT_LE(others, 22 * 2 / 3 + 1);
  EXPECT_EQ(store_->Get(id)->last_sequence(), 93u);
  EXPECT_EQ(store_->Get(id)->report().train().epochs_size(), 30);
}

TEST_F(JobStoreTest, ADamagedEventIsShownAsSuch) {
  const std::string id = Submit(TrainSpec("a"));
  ASSERT_TRUE(store_->Append(id, LogEvent("x")).ok());
  ASSERT_TRUE(store_->AppendEpoch(id, Epoch(1)).ok());
  ASSERT_TRUE((*Database::Open(path_))
                  ->Execute("UPDATE events SET event = X'FF'")
                  .ok());
  const auto batch = store_->ReadEvents(id, 1, 9);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->events.size(), 3u);
  EXPECT_EQ(batch->events[1].sequence(), 2u);
  EXPECT_THAT(batch->events[1].log().text(), HasSubstr("damaged"));
  EXPECT_TRUE(store_->Get(id).ok());
}

TEST_F(JobStoreTest, CountsFollowEveryStep) {
  const auto expect_counts = [this](int queued, int failed) {
    const auto counts = store_->CountByState();
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->at(v1::QUEUED), queued);
    EXPECT_EQ(counts->at(v1::FAILED), failed);
    EXPECT_EQ(counts->at(v1::PREPARING), 0);
    EXPECT_EQ(counts->at(v1::SUCCEEDED), 0);
  };
  expect_counts(0, 0);
  const std::string id = Submit(TrainSpec("a"));
  Submit(TrainSpec("b"));
  expect_counts(2, 0);
  Finish(id, v1::FAILED);
  expect_counts(1, 1);
  Reopen();
  expect_counts(1, 1);
  ASSERT_TRUE(store_->Delete(id).ok());
  expect_counts(1, 0);
}

// Counts steps of SQLite's virtual machine, on all connections opened during
// its life.
class StepCount {
 public:
  StepCount() { sqlite3_auto_extension(Entry()); }
  ~StepCount() { sqlite3_cancel_auto_extension(Entry()); }
  static int64_t steps() { return steps_; }

 private:
  static void (*Entry())() { return reinterpret_cast<void (*)()>(Install); }
  static int Install(sqlite3* handle, char**, const sqlite3_api_routines*) {
    sqlite3_progress_handler(
        handle, 1,
        [](void*) {
          ++steps_;
          return 0;
        },
        nullptr);
    return SQLITE_OK;
  }
  static inline int64_t steps_ = 0;
};

TEST_F(JobStoreTest, CountingTakesAsLongWithManyJobs) {
  store_.reset();
  const StepCount count;
  store_ = OpenStore(path_);
  Submit(TrainSpec("a"));
  const auto steps_of_counting = [this] {
    const int64_t before = StepCount::steps();
    EXPECT_TRUE(store_->CountByState().ok());
    return StepCount::steps() - before;
  };
  const int64_t few = steps_of_counting();
  EXPECT_GT(few, 0);
  ASSERT_TRUE((*Database::Open(path_))
                  ->Execute("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL "
                            "SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO "
                            "jobs (kind, state, spec, create_ns) "
                            "SELECT 'train', 1, X'', 1 FROM n")
                  .ok());
  const absl::Time start = absl::Now();
  EXPECT_EQ(steps_of_counting(), few);
  std::cout << "100,001 jobs are counted in " << absl::Now() - start << "\n";
  EXPECT_EQ(store_->CountByState()->at(v1::QUEUED), 100'001);
}

TEST_F(JobStoreTest, TheTailHasNoProgress) {
  const std::string id = Submit(TrainSpec("a"));
  for (uint32_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(store_->AppendEpoch(id, Epoch(i)).ok());
    ASSERT_TRUE(store_->Append(id, ProgressEvent(i)).ok());
    ASSERT_TRUE(store_->Append(id, ProgressEvent(i)).ok());
  }
  const auto tail = store_->ReadTail(id, 2);
  ASSERT_TRUE(tail.ok()) << tail.status();
  ASSERT_EQ(tail->size(), 2u);
  EXPECT_EQ((*tail)[0].epoch().epoch(), 4u);
  EXPECT_EQ((*tail)[1].epoch().epoch(), 5u);
  EXPECT_EQ(store_->ReadTail(id, 100)->size(), 6u);
  EXPECT_TRUE(absl::IsNotFound(store_->ReadTail("train-9", 1).status()));
}

// Process that submits jobs and writes each id, once acknowledged, to `told`.
[[noreturn]] void SubmitForever(const std::string& path, int told) {
  const auto store = OpenStore(path);
  while (true) {
    const auto job = store->Submit("", TrainSpec("a"));
    const int64_t number = JobNumber(job->id());
    if (write(told, &number, sizeof(number)) != sizeof(number)) _exit(1);
  }
}

TEST_F(JobStoreTest, NoAcknowledgedJobIsLostToKills) {
  store_.reset();
  std::set<int64_t> acknowledged;
  for (int round = 0; round < 5; ++round) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) SubmitForever(path_, told[1]);
    close(told[1]);
    int64_t number = 0;
    for (int i = 0; i < 20 + 7 * round; ++i) {
      ASSERT_EQ(read(told[0], &number, sizeof(number)), sizeof(number));
      acknowledged.insert(number);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(told[0], &number, sizeof(number)) == sizeof(number)) {
      acknowledged.insert(number);
    }
    close(told[0]);
  }
  store_ = OpenStore(path_);
  for (const int64_t number : acknowledged) {
    const auto job = store_->Get(absl::StrCat("train-", number));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->last_sequence(), 1u);
  }
}

}  // namespace
}  // namespace hearth::server
