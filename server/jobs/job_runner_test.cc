#include "server/jobs/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/process.h"
#include "engine/train/train_step.h"
#include "tests/fixtures/graphs.h"

namespace hearth::server {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::FromUnixSeconds(1'000'000) + absl::Seconds(seconds);
  }
  double SteadySeconds() const override { return seconds; }
  double seconds = 0;
};

TEST(RetiredSeriesTest, SeriesStayForAWhileAndThenGo) {
  const auto registry = metrics::NewRegistry();
  ManualClock clock;
  RetiredSeries retired(*registry, clock);
  const auto retire = [&](const std::string& job) {
    retired.Add(std::shared_ptr<metrics::Gauge>(
        registry->NewGauge("hearth_loss", "Loss.", {{"job", job}})));
  };
  retire("train-1");
  clock.seconds = 10;
  retire("train-2");
  clock.seconds = RetiredSeries::kLifetimeSeconds - 1;
  EXPECT_THAT(registry->Text(), HasSubstr("train-1"));
  clock.seconds = RetiredSeries::kLifetimeSeconds;
  EXPECT_THAT(registry->Text(), Not(HasSubstr("train-1")));
  EXPECT_THAT(registry->Text(), HasSubstr("train-2"));
  clock.seconds = RetiredSeries::kLifetimeSeconds + 10;
  EXPECT_THAT(registry->Text(), Not(HasSubstr("train-2")));
}

TEST(RetiredSeriesTest, WithoutCollectionsNewOnesDriveOutOldOnes) {
  const auto registry = metrics::NewRegistry();
  ManualClock clock;
  RetiredSeries retired(*registry, clock);
  const auto series = std::make_shared<int>(1);
  retired.Add(series);
  EXPECT_EQ(series.use_count(), 2);
  clock.seconds = RetiredSeries::kLifetimeSeconds;
  retired.Add(std::make_shared<int>(2));
  EXPECT_EQ(series.use_count(), 1);
}

TEST(RetiredSeriesTest, OfManyJobsTheLastOnesStay) {
  const auto registry = metrics::NewRegistry();
  ManualClock clock;
  RetiredSeries retired(*registry, clock);
  const auto first = std::make_shared<int>(1);
  const auto second = std::make_shared<int>(2);
  retired.Add(first);
  retired.Add(second);
  for (size_t i = 2; i < RetiredSeries::kMaxJobs; ++i) {
    retired.Add(std::make_shared<int>(0));
  }
  EXPECT_EQ(first.use_count(), 2);
  retired.Add(std::make_shared<int>(0));
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 2);
}

class RecordedEvents final : public JobEvents {
 public:
  void OnRunning() override { ++running; }
  void Append(const v1::JobEvent& event) override { events.push_back(event); }
  absl::Status OnEpoch(const v1::EpochReport& epoch) override {
    epochs.push_back(epoch);
    return absl::UnavailableError("no disk");
  }
  absl::Status OnFirstEpochKey(uint32_t key) override {
    first_epoch_key = key;
    return absl::OkStatus();
  }
  void OnDurable() override { ++durable; }
  int running = 0;
  int durable = 0;
  uint32_t first_epoch_key = 0;
  std::vector<v1::JobEvent> events;
  std::vector<v1::EpochReport> epochs;
};

job::Progress Training(uint64_t done) {
  job::Progress progress;
  progress.phase = "training";
  progress.done = done;
  return progress;
}

TEST(JobObserverTest, ProgressIsPassedOnTwiceASecond) {
  ManualClock clock;
  clock.seconds = 100;
  RecordedEvents events;
  const auto registry = metrics::NewRegistry();
  JobObserver observer(events, clock, *registry, {.id = "train-1"});
  for (uint64_t i = 0; i < 40; ++i) {
    observer.OnProgress(Training(i));
    clock.seconds += 0.0625;
  }
  ASSERT_EQ(events.events.size(), 5u);
  EXPECT_EQ(events.events[0].progress().done(), 0u);
  EXPECT_EQ(events.events[1].progress().done(), 8u);
}

TEST(JobObserverTest, EverythingElseIsPassedOnAlways) {
  ManualClock clock;
  clock.seconds = 100;
  RecordedEvents events;
  const auto registry = metrics::NewRegistry();
  JobObserver observer(events, clock, *registry, {.id = "train-1"});
  observer.OnRunning();
  observer.OnProgress(Training(0));
  job::EpochReport epoch;
  epoch.epoch = 2;
  EXPECT_EQ(observer.OnEpoch(epoch), absl::UnavailableError("no disk"));
  observer.OnDurable();
  observer.OnLog(job::Severity::kWarning, "careful");
  EXPECT_EQ(events.running, 1);
  EXPECT_EQ(events.durable, 1);
  ASSERT_EQ(events.epochs.size(), 1u);
  EXPECT_EQ(events.epochs[0].epoch(), 2u);
  ASSERT_EQ(events.events.size(), 2u);
  EXPECT_EQ(events.events[1].log().text(), "careful");
  EXPECT_EQ(events.events[1].log().severity(), v1::LogLine::WARNING);
}

TEST(JobObserverTest, SeriesTellWhenAJobLastGotOnUntilItEnds) {
  ManualClock clock;
  clock.seconds = 100;
  RecordedEvents events;
  const auto registry = metrics::NewRegistry();
  const std::string progress =
      "hearth_job_last_progress_timestamp_seconds{job=\"train-1\"} ";
  const std::string checkpoint =
      "hearth_job_last_checkpoint_timestamp_seconds{job=\"train-1\"} ";
  {
    JobObserver observer(events, clock, *registry,
                         {.id = "train-1", .has_checkpoints = true});
    EXPECT_THAT(registry->Text(), HasSubstr(progress + "1000100\n"));
    EXPECT_THAT(registry->Text(), HasSubstr(checkpoint + "1000100\n"));
    clock.seconds += 60;
    observer.OnProgress(Training(1));
    clock.seconds += 60;
    observer.OnDurable();
    EXPECT_THAT(registry->Text(), HasSubstr(progress + "1000160\n"));
    EXPECT_THAT(registry->Text(), HasSubstr(checkpoint + "1000220\n"));
  }
  EXPECT_EQ(registry->Text(), "");
  const JobObserver import(events, clock, *registry, {.id = "import-2"});
  EXPECT_THAT(registry->Text(), Not(HasSubstr("checkpoint")));
}

}  // namespace

// Tests of jobs that run again after an interruption, and of edge cases;
// daemon_test tests the normal course of jobs.

namespace {

namespace fs = std::filesystem;

class NoEvents final : public JobEvents {
 public:
  void OnRunning() override { ++running; }
  void Append(const v1::JobEvent& event) override {
    if (event.has_log()) logs.push_back(event.log().text());
  }
  absl::Status OnEpoch(const v1::EpochReport&) override {
    return absl::OkStatus();
  }
  absl::Status OnFirstEpochKey(uint32_t /*key*/) override {
    return absl::OkStatus();
  }
  void OnDurable() override {}
  int running = 0;
  std::vector<std::string> logs;
};

class JobRunnerTest : public ::testing::Test {
 protected:
  JobRunnerTest() {
    fs::remove_all(root_);
    data_dir_ = *DataDir::Open(files_, root_ + "/data");
    store_ = *JobStore::Open(files_, data_dir_->DatabasePath(), Clock::Real(),
                             [](const std::string&) {});
    EXPECT_TRUE(hearth::testing::WriteNumpyFolder({}, root_ + "/source").ok());
  }

  absl::StatusOr<v1::JobReport> Run(const v1::Job& job,
                                    std::vector<std::string> roots = {}) {
    return NewJobRunner(Dependencies(), std::move(roots))
        ->Run(job, events_, {});
  }

  JobRunnerDependencies Dependencies() {
    return {.environment = environment_,
            .data_dir = *data_dir_,
            .store = *store_,
            .registry = *registry_,
            .retired_series = retired_};
  }

  // Imports with a memory limit, where jobs may take 600 MiB.
  absl::StatusOr<v1::JobReport> ImportWithin600MiB(uint64_t memory_limit) {
    job::MemoryLedger memory(600 << 20);
    const job::JobEnvironment environment = {
        .files = files_,
        .read_queues = *read_queues_,
        .clock = Clock::Real(),
        .running_jobs = running_jobs_,
        .memory = memory,
        .warm_strategies = warm_strategies_,
        .batch_measurement = batch_measurement_,
        .plans = plans_,
        .new_train_step = environment_.new_train_step};
    v1::Job job = ImportJob();
    job.mutable_spec()->mutable_import()->set_memory_limit_bytes(memory_limit);
    return NewJobRunner({.environment = environment,
                         .data_dir = *data_dir_,
                         .store = *store_,
                         .registry = *registry_,
                         .retired_series = retired_},
                        {})
        ->Run(job, events_, {});
  }

  v1::Job ImportJob() {
    v1::Job job;
    job.set_id("import-1");
    job.mutable_spec()->mutable_import()->set_name("graph");
    job.mutable_spec()->mutable_import()->set_path(root_ + "/source");
    job.mutable_spec()->mutable_import()->set_memory_limit_bytes(1 << 20);
    return job;
  }

  // Trains as the store's job train-1.
  void Train() {
    v1::JobSpec spec;
    v1::TrainJobSpec& train = *spec.mutable_train();
    train.mutable_data()->set_dataset("graph");
    train.mutable_data()->mutable_mmap();
    train.mutable_data()->mutable_neighbor()->add_fanouts(2);
    train.mutable_data()->set_batch_size(100);
    train.mutable_data()->set_epochs(1);
    train.mutable_pipeline()->set_samplers(1);
    train.mutable_pipeline()->set_extractors(1);
    train.add_trains()->mutable_sage()->set_hidden(4);
    train.mutable_trains(0)->set_train_threads(1);
    train.mutable_trains(0)->mutable_adam()->set_learning_rate(0.1);
    const v1::Job job = *store_->Submit("", spec);
    const auto report = Run(job);
    ASSERT_TRUE(report.ok()) << report.status();
    StateUpdate update;
    for (const v1::JobState state :
         {v1::PREPARING, v1::RUNNING, v1::SUCCEEDED}) {
      update.state = state;
      if (state == v1::SUCCEEDED) update.report = *report;
      ASSERT_TRUE(store_->ChangeState(job.id(), update).ok());
    }
  }

  const std::string root_ = ::testing::TempDir() + "/job_runner_test";
  io::FileSystem& files_ = io::FileSystem::Posix();
  const std::unique_ptr<io::ReadQueues> read_queues_ =
      *io::ReadQueues::Create();
  job::RunningJobs running_jobs_;
  job::MemoryLedger memory_{uint64_t{1} << 40};
  plan::PlanStore plans_{files_, Clock::Real(), {.folder = root_ + "/plans"}};
  job::WarmStrategies warm_strategies_{files_, memory_, root_ + "/scratch"};
  job::BatchMeasurement batch_measurement_{files_, Clock::Real(),
                                           root_ + "/plans"};
  const job::JobEnvironment environment_{
      .files = files_,
      .read_queues = *read_queues_,
      .clock = Clock::Real(),
      .running_jobs = running_jobs_,
      .memory = memory_,
      .warm_strategies = warm_strategies_,
      .batch_measurement = batch_measurement_,
      .plans = plans_,
      .new_train_step = [](const auto&, const auto&) {
        return train::NewNullStep();
      }};
  const std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  RetiredSeries retired_{*registry_, Clock::Real()};
  std::unique_ptr<DataDir> data_dir_;
  std::unique_ptr<JobStore> store_;
  NoEvents events_;
};

TEST_F(JobRunnerTest, TheDefaultMemoryLimitOfAnImportFits) {
  constexpr uint64_t kDefault = 1 << 30;
  const absl::Status asked = ImportWithin600MiB(kDefault + 1).status();
  EXPECT_EQ(asked.code(), absl::StatusCode::kResourceExhausted) << asked;
  EXPECT_THAT(std::string(asked.message()),
              HasSubstr("a smaller --memory-limit fits"));
  const auto report = ImportWithin600MiB(kDefault);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(events_.logs.empty());
  EXPECT_THAT(events_.logs[0],
              HasSubstr("memory limit: 300.0 MiB, half of what jobs may take"));
}

TEST_F(JobRunnerTest, AnImportKilledAfterItsEndSucceedsAgain) {
  const auto first = Run(ImportJob());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->import().num_nodes(), 600u);
  fs::remove_all(root_ + "/source");
  const auto again = Run(ImportJob());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->import().num_nodes(), 600u);
  EXPECT_EQ(again->import().num_edges(), first->import().num_edges());
  EXPECT_EQ(events_.running, 2);
}

TEST_F(JobRunnerTest, ImportRootsAreCheckedAgain) {
  const auto report = Run(ImportJob(), {"/nowhere"});
  EXPECT_TRUE(absl::IsPermissionDenied(report.status()));
}

TEST_F(JobRunnerTest, AnExportKilledAfterItsEndSucceedsAgain) {
  ASSERT_TRUE(Run(ImportJob()).ok());
  Train();
  v1::Job job;
  job.set_id("export-2");
  job.mutable_spec()->mutable_export_()->set_job_id("train-1");
  job.mutable_spec()->mutable_export_()->set_destination(root_ + "/model");
  ASSERT_TRUE(Run(job).ok());
  EXPECT_TRUE(Run(job).ok());
  fs::resize_file(root_ + "/model/config.json", 1);
  EXPECT_TRUE(absl::IsAlreadyExists(Run(job).status()));
}

TEST_F(JobRunnerTest, SeriesOfAJobOutliveIt) {
  ASSERT_TRUE(Run(ImportJob()).ok());
  Train();
  EXPECT_THAT(
      registry_->Text(),
      HasSubstr(
          "hearth_train_epochs_total{job=\"train-1\",strategy=\"mmap\"}"));
}

TEST_F(JobRunnerTest, WhatAnImportHasLeftIsThrownAwayWhereThereIsAny) {
  const std::string left = data_dir_->UnfinishedDatasetPath("import-1");
  std::vector<std::string> thrown;
  JobRunnerDependencies dependencies = Dependencies();
  dependencies.throw_away = [&](const std::string& path) {
    thrown.push_back(path);
    return absl::OkStatus();
  };
  const auto throwing = NewJobRunner(dependencies, {});
  throwing->Discard("import-1");
  EXPECT_THAT(thrown, ::testing::IsEmpty());
  fs::create_directories(left);
  throwing->Discard("import-1");
  EXPECT_THAT(thrown, ::testing::ElementsAre(left));
  NewJobRunner(Dependencies(), {})->Discard("import-1");
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(JobRunnerTest, AnUnknownKindIsNotImplemented) {
  EXPECT_TRUE(absl::IsUnimplemented(Run(v1::Job()).status()));
}

TEST_F(JobRunnerTest, FreePagesGoBackToTheSystemAfterAJob) {
  std::vector<std::string> pieces(4096, std::string(16 << 10, 'x'));
  if (mallinfo2().uordblks < 64 << 20) {
    GTEST_SKIP() << "sanitizers bring another allocator than glibc's";
  }
  // Keeps the heap's top in use, so that the heap does not shrink by itself.
  const std::string last = std::move(pieces.back());
  pieces.clear();
  const uint64_t before = ReadProcessMemory().total_bytes();
  EXPECT_TRUE(Run(ImportJob()).ok());
  EXPECT_LT(ReadProcessMemory().total_bytes(), before - (48 << 20));
  EXPECT_EQ(last.size(), 16 << 10);
}

}  // namespace

}  // namespace hearth::server
