#include "server/page/metrics_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/version.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/memory_budget.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"

namespace hearth::server {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DaemonMetricsTest : public testing::Test {
 protected:
  DaemonMetricsTest() {
    std::filesystem::remove_all(path_);
    data_dir_ = *DataDir::Open(files_, path_);
    const std::string disk = path_ + "/disk";
    EXPECT_TRUE(files_.CreateDirectory(disk).ok());
    data_disks_ = *DataDisks::Open(files_, Clock::Real(), {disk});
    store_ = *JobStore::Open(files_, data_dir_->DatabasePath(), Clock::Real(),
                             [](const std::string&) {});
  }

  DaemonMetricsDependencies Dependencies() {
    return {.registry = *registry_,
            .store = *store_,
            .longest_queue_seconds = [this] { return queue_seconds_; },
            .files = files_,
            .data_dir = *data_dir_,
            .memory = memory_,
            .plans = plans_,
            .data_disks = *data_disks_};
  }

  job::MemoryLedger memory_{uint64_t{1} << 30};
  const std::string path_ = testing::TempDir() + "/daemon_metrics_test";
  io::FileSystem& files_ = io::FileSystem::Posix();
  plan::PlanStore plans_{files_, Clock::Real(), {.folder = path_ + "/plans"}};
  const std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  std::unique_ptr<DataDir> data_dir_;
  std::unique_ptr<DataDisks> data_disks_;
  std::unique_ptr<JobStore> store_;
  double queue_seconds_ = 0;
};

TEST_F(DaemonMetricsTest, FiguresAreThoseOfTheCollection) {
  const auto daemon = NewDaemonMetrics(Dependencies(), "2.11.0");
  EXPECT_THAT(registry_->Text(), HasSubstr("hearth_jobs{state=\"queued\"} 0"));
  v1::JobSpec spec;
  spec.mutable_import()->set_name("a");
  ASSERT_TRUE(store_->Submit("", spec).ok());
  EXPECT_THAT(registry_->Text(), HasSubstr("hearth_queue_longest_seconds 0"));
  queue_seconds_ = 1.5;
  const std::string text = registry_->Text();
  EXPECT_THAT(text, Not(HasSubstr("hearth_queue_longest_seconds 0\n")));
  EXPECT_THAT(text, HasSubstr("hearth_plan_bytes 0"));
  const std::string disk = absl::StrCat("{folder=\"", path_, "/disk\"} ");
  EXPECT_THAT(text, HasSubstr("hearth_data_disk_plan_bytes" + disk + "0"));
  EXPECT_THAT(text, HasSubstr("hearth_data_disk_free_bytes" + disk));
  EXPECT_THAT(text, HasSubstr("hearth_jobs{state=\"queued\"} 1"));
  EXPECT_THAT(text, HasSubstr("hearth_jobs{state=\"failed\"} 0"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("version=\"", kVersion, "\"")));
  EXPECT_THAT(text, HasSubstr("torch=\"2.11.0\""));
  EXPECT_THAT(text,
              HasSubstr("hearth_process_memory_bytes{kind=\"anonymous\"}"));
  EXPECT_THAT(text, HasSubstr("hearth_data_dir_free_bytes"));
  EXPECT_THAT(text, HasSubstr("hearth_memory_limit_bytes 1073741824"));
}

TEST_F(DaemonMetricsTest, MemoryIsToldByOwner) {
  const auto daemon = NewDaemonMetrics(Dependencies(), "2.11.0");
  job::MemoryLedger::Reservation reservation;
  strategy::MemoryEstimate estimate;
  estimate.Add("cache", 4096);
  ASSERT_TRUE(memory_.Reserve(estimate, reservation).ok());
  EXPECT_THAT(registry_->Text(),
              HasSubstr("hearth_memory_reserved_bytes{owner=\"cache\"} 4096"));
  reservation = {};
  EXPECT_THAT(registry_->Text(),
              HasSubstr("hearth_memory_reserved_bytes{owner=\"cache\"} 0"));
}

TEST_F(DaemonMetricsTest, SeriesGoWithTheOwner) {
  NewDaemonMetrics(Dependencies(), "");
  EXPECT_EQ(registry_->Text(), "");
}

TEST_F(DaemonMetricsTest, PromtoolAcceptsThem) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool is not installed";
  }
  const auto daemon = NewDaemonMetrics(Dependencies(), "2.11.0");
  const std::string file = path_ + "/metrics.txt";
  std::ofstream(file) << registry_->Text();
  EXPECT_EQ(std::system(absl::StrCat("promtool check metrics <", file).c_str()),
            0);
}

using nlohmann::json;

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::FromUnixSeconds(1000) + absl::Seconds(seconds);
  }
  double SteadySeconds() const override { return seconds; }
  double seconds = 0;
};

class DaemonStateTest : public testing::Test {
 protected:
  // State after the cached one has expired.
  json State() {
    clock_.seconds += 1;
    return json::parse(state_->Json());
  }

  std::string Train() {
    v1::JobSpec spec;
    auto* data = spec.mutable_train()->mutable_data();
    data->set_dataset("papers");
    data->mutable_gnndrive();
    spec.mutable_train()->add_trains()->mutable_sage();
    return store_->Submit("", spec)->id();
  }

  std::string Feed() {
    v1::JobSpec spec;
    spec.mutable_feed()->mutable_data()->set_dataset("papers");
    spec.mutable_feed()->mutable_data()->mutable_gnndrive();
    return store_->Submit("", spec)->id();
  }

  void Move(const std::string& id, v1::JobState state) {
    StateUpdate update;
    update.state = state;
    ASSERT_TRUE(store_->ChangeState(id, update).ok());
  }

  void Epoch(const std::string& id, uint32_t number, double valid = 0.5) {
    v1::EpochReport epoch;
    epoch.set_epoch(number);
    epoch.set_loss(1.0 / number);
    epoch.set_metric("accuracy");
    epoch.set_valid_metric(valid);
    ASSERT_TRUE(store_->AppendEpoch(id, epoch).ok());
  }

  // Begins a sweep in `state` whose first trials have a job each; returns its
  // id.
  std::string Sweep(v1::SweepState state, int jobs = 0) {
    SweepStep step;
    step.sweep.set_state(state);
    step.sweep.set_metric("accuracy");
    v1::TrialCount& count = *step.sweep.add_counts();
    count.set_state(v1::TRIAL_RUNNING);
    count.set_trials(3);
    v1::SweepSpec& spec = *step.sweep.mutable_spec();
    spec.mutable_asha();
    spec.mutable_train()->mutable_data()->set_dataset("papers");
    spec.mutable_train()->mutable_data()->mutable_gnndrive();
    spec.mutable_train()->add_trains()->mutable_sage();
    for (int trial = 1; trial <= jobs; ++trial) {
      SweepStep::NewJob& job = step.new_jobs.emplace_back();
      *job.spec.mutable_train() = spec.train();
      job.trial = static_cast<uint32_t>(trial);
    }
    EXPECT_TRUE(sweeps_.Add("", step).ok());
    return step.sweep.id();
  }

  // Adds a trial to what the sweep is said to have.
  v1::Trial& AddTrial(v1::TrialState state, uint32_t rank = 0) {
    v1::Trial& trial = *trials_.Add();
    trial.set_number(static_cast<uint32_t>(trials_.size()));
    trial.set_state(state);
    trial.set_rank(rank);
    return trial;
  }

  const io::ScratchDirectory scratch_;
  ManualClock clock_;
  const std::unique_ptr<JobStore> store_ =
      *JobStore::Open(io::FileSystem::Posix(), scratch_.Path("hearth.db"),
                      clock_, [](const std::string&) {});
  SweepStore sweeps_{*store_, clock_, [](const std::string&) {}};
  // Trials of every sweep, and the number of times that they were read.
  google::protobuf::RepeatedPtrField<v1::Trial> trials_;
  int sweeps_read_ = 0;
  // The job that has a machine.
  std::string machine_of_;
  v1::MachineState machine_;
  const std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  const std::unique_ptr<DaemonState> state_ =
      NewDaemonState({.store = *store_,
                      .sweeps = sweeps_,
                      .get_sweep =
                          [this](const std::string& id) {
                            ++sweeps_read_;
                            absl::StatusOr<v1::Sweep> sweep = sweeps_.Get(id);
                            *sweep->mutable_trials() = trials_;
                            return sweep;
                          },
                      .add_machines =
                          [this](v1::Job& job) {
                            if (job.id() == machine_of_) {
                              *job.add_machines() = machine_;
                            }
                          },
                      .registry = *registry_,
                      .clock = clock_});
};

TEST_F(DaemonStateTest, MachinesAreThoseOfNow) {
  machine_of_ = Train();
  machine_.set_member("host-b");
  machine_.set_done(7);
  EXPECT_EQ(State()["jobs"][0]["machines"][0]["done"], 7);
  // Without an event of the job.
  machine_.set_done(8);
  EXPECT_EQ(State()["jobs"][0]["machines"][0]["done"], 8);
  machine_of_.clear();
  EXPECT_FALSE(State()["jobs"][0].contains("machines"));
}

TEST_F(DaemonStateTest, AnEmptyDaemon) {
  const json state = State();
  EXPECT_EQ(state["version"], kVersion);
  EXPECT_EQ(state["start_time"], 1000);
  EXPECT_EQ(state["time"], 1001);
  EXPECT_EQ(state["jobs"], json::array());
  EXPECT_EQ(state["sweeps"], json::array());
  EXPECT_FALSE(state.contains("error"));
}

TEST_F(DaemonStateTest, AJobFromItsQueueToItsEpochs) {
  const std::string id = Train();
  json job = State()["jobs"][0];
  EXPECT_EQ(job["id"], "train-1");
  EXPECT_EQ(job["kind"], "train");
  EXPECT_EQ(job["state"], "QUEUED");
  EXPECT_EQ(job["dataset"], "papers");
  EXPECT_EQ(job["strategy"], "gnndrive");
  EXPECT_EQ(job["model"], "sage");
  EXPECT_EQ(job["epochs"], json::array());
  EXPECT_FALSE(job.contains("start_time"));

  Move(id, v1::PREPARING);
  Move(id, v1::RUNNING);
  v1::JobEvent event;
  event.mutable_progress()->set_phase("training");
  event.mutable_progress()->set_done(3);
  ASSERT_TRUE(store_->Append(id, event).ok());
  Epoch(id, 1);
  Epoch(id, 2);
  job = State()["jobs"][0];
  EXPECT_EQ(job["state"], "RUNNING");
  EXPECT_EQ(job["progress"]["phase"], "training");
  EXPECT_EQ(job["progress"]["done"], 3);
  ASSERT_EQ(job["epochs"].size(), 2u);
  EXPECT_EQ(job["epochs"][1]["loss"], 0.5);
  EXPECT_EQ(job["epochs"][1]["valid_metric"], 0.5);
  EXPECT_EQ(job["metric"], "accuracy");
}

TEST_F(DaemonStateTest, TheBestEpochIsTheKeptOneOnceThatIsKnown) {
  const std::string id = Train();
  Move(id, v1::PREPARING);
  Move(id, v1::RUNNING);
  EXPECT_FALSE(State()["jobs"][0].contains("best_epoch"));
  Epoch(id, 1, 0.5);
  Epoch(id, 2, 0.75);
  Epoch(id, 3, 0.25);
  json job = State()["jobs"][0];
  EXPECT_EQ(job["best_epoch"], 2);
  EXPECT_EQ(job["best_valid_metric"], 0.75);
  StateUpdate update;
  update.state = v1::SUCCEEDED;
  update.report.emplace().mutable_train()->set_kept_epoch(3);
  update.report->mutable_train()->set_test_metric(0.125);
  ASSERT_TRUE(store_->ChangeState(id, update).ok());
  job = State()["jobs"][0];
  EXPECT_EQ(job["best_epoch"], 3);
  EXPECT_EQ(job["best_valid_metric"], 0.25);
  EXPECT_EQ(job["test_metric"], 0.125);
  EXPECT_EQ(job["metric"], "accuracy");
}

TEST_F(DaemonStateTest, AFeedHasTheEpochsThatItsClientReports) {
  const std::string id = Feed();
  json job = State()["jobs"][0];
  EXPECT_EQ(job["kind"], "feed");
  EXPECT_EQ(job["strategy"], "gnndrive");
  EXPECT_EQ(job["epochs"], json::array());
  Move(id, v1::PREPARING);
  Move(id, v1::RUNNING);
  Epoch(id, 1, 0.5);
  Epoch(id, 2, 0.75);
  job = State()["jobs"][0];
  EXPECT_EQ(job["epochs"].size(), 2u);
  EXPECT_EQ(job["best_epoch"], 2);
}

TEST_F(DaemonStateTest, AnEvaluateJobHasItsDataModelAndTestMetric) {
  v1::JobSpec spec;
  spec.mutable_evaluate()->set_job_id(Train());
  *spec.mutable_evaluate()->mutable_train() =
      store_->Get("train-1")->spec().train();
  const std::string id = store_->Submit("", spec)->id();
  Move(id, v1::PREPARING);
  Move(id, v1::RUNNING);
  StateUpdate update;
  update.state = v1::SUCCEEDED;
  update.report.emplace().mutable_evaluate()->set_metric("accuracy");
  update.report->mutable_evaluate()->set_test_metric(0.75);
  ASSERT_TRUE(store_->ChangeState(id, update).ok());
  const json job = State()["jobs"][0];
  EXPECT_EQ(job["kind"], "evaluate");
  EXPECT_EQ(job["dataset"], "papers");
  EXPECT_EQ(job["model"], "sage");
  EXPECT_EQ(job["metric"], "accuracy");
  EXPECT_EQ(job["test_metric"], 0.75);
}

TEST_F(DaemonStateTest, OfManyEpochsSomeAreShownAndTheLastOne) {
  const std::string id = Train();
  Move(id, v1::PREPARING);
  Move(id, v1::RUNNING);
  for (uint32_t epoch = 1; epoch <= 501; ++epoch) Epoch(id, epoch);
  const json epochs = State()["jobs"][0]["epochs"];
  EXPECT_EQ(epochs.size(), static_cast<size_t>(DaemonState::kEpochs));
  EXPECT_EQ(epochs.back()["epoch"], 501);
}

TEST_F(DaemonStateTest, TheNewestJobsOnly) {
  for (int i = 0; i < DaemonState::kJobs + 5; ++i) Train();
  const json jobs = State()["jobs"];
  EXPECT_EQ(jobs.size(), static_cast<size_t>(DaemonState::kJobs));
  EXPECT_EQ(jobs[0]["id"], "train-25");
}

TEST_F(DaemonStateTest, JobsThatRunAreThereHoweverManyAreNewer) {
  const std::string id = Train();
  Move(id, v1::PREPARING);
  for (int i = 0; i < 2 * DaemonState::kJobs; ++i) Train();
  const json jobs = State()["jobs"];
  EXPECT_EQ(jobs.size(), static_cast<size_t>(DaemonState::kJobs) + 1);
  EXPECT_EQ(jobs.back()["id"], id);
}

TEST_F(DaemonStateTest, OfASweepsJobsThoseThatRunAreTold) {
  const std::string sweep = Sweep(v1::SWEEP_RUNNING, 3);
  Move("train-1", v1::PREPARING);
  Move("train-2", v1::PREPARING);
  Move("train-2", v1::RUNNING);
  Move("train-2", v1::CANCELLED);
  const json jobs = State()["jobs"];
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0]["id"], "train-1");
  EXPECT_EQ(jobs[0]["sweep"], sweep);
  EXPECT_EQ(jobs[0]["trial"], 1);
}

TEST_F(DaemonStateTest, ASweepHasItsFiguresAndTrials) {
  Sweep(v1::SWEEP_RUNNING, 1);
  Move("train-1", v1::PREPARING);
  Move("train-1", v1::RUNNING);
  Epoch("train-1", 1, 0.25);
  Epoch("train-1", 2, 0.75);
  v1::Trial& first = AddTrial(v1::TRIAL_STOPPED, 1);
  first.add_jobs("train-1");
  first.set_epochs(2);
  first.set_metric(0.75);
  first.set_reason("number 2 of 3");
  for (const char* name : {"lr", "hidden"}) {
    v1::TrialSetting& setting = *first.add_parameters();
    setting.set_name(name);
    setting.set_value("16");
  }
  AddTrial(v1::TRIAL_PENDING);
  const json sweep = State()["sweeps"][0];
  EXPECT_EQ(sweep["id"], "sweep-1");
  EXPECT_EQ(sweep["state"], "RUNNING");
  EXPECT_EQ(sweep["dataset"], "papers");
  EXPECT_EQ(sweep["strategy"], "gnndrive");
  EXPECT_EQ(sweep["model"], "sage");
  EXPECT_EQ(sweep["algorithm"], "asha");
  EXPECT_EQ(sweep["counts"], json::parse(R"({"running": 3})"));
  EXPECT_EQ(sweep["metric"], "accuracy");
  EXPECT_FALSE(sweep.contains("best_metric"));
  EXPECT_FALSE(sweep.contains("end_time"));
  ASSERT_EQ(sweep["trials"].size(), 2u);
  const json trial = sweep["trials"][0];
  EXPECT_EQ(trial["number"], 1);
  EXPECT_EQ(trial["state"], "stopped");
  EXPECT_EQ(trial["parameters"], "lr 16, hidden 16");
  EXPECT_EQ(trial["epochs"], 2);
  EXPECT_EQ(trial["metric"], 0.75);
  EXPECT_EQ(trial["rank"], 1);
  EXPECT_EQ(trial["reason"], "number 2 of 3");
  EXPECT_EQ(trial["job"], "train-1");
  EXPECT_EQ(trial["curve"], json::parse("[[1, 0.25], [2, 0.75]]"));
  EXPECT_EQ(sweep["trials"][1]["state"], "pending");
  EXPECT_FALSE(sweep["trials"][1].contains("job"));
}

TEST_F(DaemonStateTest, TheBestTrialIsTold) {
  const std::string id = Sweep(v1::SWEEP_RUNNING);
  SweepStep step;
  step.sweep = *sweeps_.Get(id);
  step.sweep.set_state(v1::SWEEP_DONE);
  step.sweep.set_best_trial(2);
  step.sweep.set_best_metric(0.75);
  step.sweep.set_best_test_metric(0.5);
  step.sweep.set_test_fault("the job is gone");
  EXPECT_EQ(State()["sweeps"][0]["state"], "RUNNING");
  step.events.emplace_back().mutable_state()->set_state(v1::SWEEP_DONE);
  ASSERT_TRUE(sweeps_.Commit(step).ok());
  const json sweep = State()["sweeps"][0];
  EXPECT_EQ(sweep["state"], "DONE");
  EXPECT_EQ(sweep["best_trial"], 2);
  EXPECT_EQ(sweep["best_metric"], 0.75);
  EXPECT_EQ(sweep["test_metric"], 0.5);
  EXPECT_EQ(sweep["test_fault"], "the job is gone");
  EXPECT_TRUE(sweep.contains("end_time"));
}

TEST_F(DaemonStateTest, TrialsThatRunComeFirstThenTheBestOnes) {
  Sweep(v1::SWEEP_RUNNING);
  AddTrial(v1::TRIAL_PENDING);
  AddTrial(v1::TRIAL_STOPPED, 2);
  AddTrial(v1::TRIAL_SUCCEEDED, 1);
  AddTrial(v1::TRIAL_FAILED);
  AddTrial(v1::TRIAL_RUNNING, 3);
  std::vector<int> numbers;
  const json state = State();
  for (const json& trial : state["sweeps"][0]["trials"]) {
    numbers.push_back(trial["number"]);
  }
  EXPECT_EQ(numbers, std::vector<int>({5, 3, 2, 4, 1}));
}

TEST_F(DaemonStateTest, OfManyTrialsAndSweepsSomeAreTold) {
  for (int i = 0; i < DaemonState::kTrials + 5; ++i) {
    AddTrial(v1::TRIAL_PENDING);
  }
  // It has a job that runs.
  Sweep(v1::SWEEP_RUNNING, 1);
  Move("train-1", v1::PREPARING);
  for (int i = 0; i < DaemonState::kSweeps + 5; ++i) Sweep(v1::SWEEP_DONE);
  const json sweeps = State()["sweeps"];
  ASSERT_EQ(sweeps.size(), static_cast<size_t>(DaemonState::kSweeps) + 1);
  EXPECT_EQ(sweeps[0]["id"], "sweep-16");
  EXPECT_EQ(sweeps.back()["id"], "sweep-1");
  EXPECT_EQ(sweeps[0]["trials"].size(),
            static_cast<size_t>(DaemonState::kTrials));
}

TEST_F(DaemonStateTest, ASweepIsReadAgainWhenItHasChanged) {
  const std::string id = Sweep(v1::SWEEP_RUNNING);
  State();
  State();
  EXPECT_EQ(sweeps_read_, 1);
  SweepStep step;
  step.sweep = *sweeps_.Get(id);
  step.events.emplace_back().mutable_stop()->set_trial(1);
  ASSERT_TRUE(sweeps_.Commit(step).ok());
  State();
  EXPECT_EQ(sweeps_read_, 2);
}

TEST_F(DaemonStateTest, CurvesAreToldOfTheNewestSweepAndOfThoseThatGoOn) {
  AddTrial(v1::TRIAL_SUCCEEDED).add_jobs("train-1");
  Sweep(v1::SWEEP_RUNNING, 1);
  Sweep(v1::SWEEP_DONE);
  Sweep(v1::SWEEP_STOPPED);
  const json sweeps = State()["sweeps"];
  EXPECT_TRUE(sweeps[0]["trials"][0].contains("curve"));
  EXPECT_FALSE(sweeps[1]["trials"][0].contains("curve"));
  EXPECT_TRUE(sweeps[2]["trials"][0].contains("curve"));
  // It is not the newest one any more.
  Sweep(v1::SWEEP_DONE);
  EXPECT_FALSE(State()["sweeps"][1]["trials"][0].contains("curve"));
}

TEST_F(DaemonStateTest, SeriesOfTheDaemonAndOfJobsThatRun) {
  const std::string running = Train(), queued = Train();
  Move(running, v1::PREPARING);
  const auto free = registry_->NewGauge("hearth_free_bytes", "Free.", {});
  const auto one =
      registry_->NewGauge("hearth_loss", "Loss.", {{"job", running}});
  const auto other =
      registry_->NewGauge("hearth_loss", "Loss.", {{"job", queued}});
  const auto seconds =
      registry_->NewHistogram("hearth_seconds", "Latency.", {}, {1});
  EXPECT_EQ(State()["series"],
            json({"hearth_free_bytes 0", "hearth_loss{job=\"train-1\"} 0",
                  "hearth_seconds_count 0", "hearth_seconds_sum 0"}));
}

TEST_F(DaemonStateTest, ItIsMadeOnceHoweverManyAsk) {
  int collections = 0;
  const auto hook = registry_->NewCollectHook([&] { ++collections; });
  for (int i = 0; i < 10; ++i) state_->Json();
  EXPECT_EQ(collections, 1);
  State();
  EXPECT_EQ(collections, 2);
}

}  // namespace

}  // namespace hearth::server
