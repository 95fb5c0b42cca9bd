// Tests of jobs that share their passes: each job has the losses and the model
// that it has alone, whatever happens to the others.
#include "engine/job/run/shared_pass.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/train_job.h"
#include "engine/metrics/registry.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/kinds.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Batches that models have trained on.
struct BatchCounts {
  std::atomic<int64_t> in_place = 0;
  std::atomic<int64_t> dense = 0;
};

// Learns at a pace that its seed decides. With seed kFailing it fails at a
// batch, with kLarge it needs more memory than there is, with kSlow it takes
// much longer than the others, with kDense it takes no rows in place.
class PacedStep final : public LinearStep {
 public:
  static constexpr uint64_t kFailing = 1000;
  static constexpr uint64_t kLarge = 1002;
  static constexpr uint64_t kSlow = 1003;

  static constexpr uint64_t kDense = 1004;

  PacedStep(const train::ModelShape& shape, uint64_t seed, BatchCounts& counts)
      : LinearStep(shape), seed_(seed), counts_(counts) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    if (seed_ == kFailing && position.epoch == 1 && position.batch == 3) {
      return absl::InternalError("out of luck");
    }
    if (seed_ == kSlow) absl::SleepFor(absl::Milliseconds(50));
    ++(shards.front().rows.has_value() ? counts_.in_place : counts_.dense);
    for (uint64_t i = 0; i < seed_ % 3; ++i) {
      HEARTH_RETURN_IF_ERROR(LinearStep::Train(shards, position).status());
    }
    return LinearStep::Train(shards, position);
  }
  uint64_t MemoryBytes(const sample::BatchShape& /*shape*/) const override {
    return seed_ == kLarge ? uint64_t{1} << 41 : 1000;
  }
  std::optional<uint64_t> BytesInPlace(
      const sample::BatchShape& shape) const override {
    EXPECT_GT(shape.num_inputs(), 0);
    return seed_ == kDense ? std::nullopt : std::optional<uint64_t>(10);
  }
  uint64_t KeptBytes() const override { return 100; }

 private:
  const uint64_t seed_;
  BatchCounts& counts_;
};

// One job on its own thread.
struct Job {
  explicit Job(TrainJobOptions options) : options(std::move(options)) {}

  TrainJobOptions options;
  RecordingObserver observer;
  std::stop_source stop;
  absl::StatusOr<TrainReport> report = absl::UnknownError("has not run");
};

class ConvoyTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    new_train_step_ = [this](const train::TrainOptions& options,
                             const train::ModelShape& shape)
        -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
      return std::make_unique<PacedStep>(shape, options.model_seed, counts_);
    };
    environment_.emplace(Environment());
    UseConvoys({});
  }

  void UseConvoys(SharedPassOptions options) {
    shared_passes_ =
        std::make_unique<SharedPassGroups>(std::move(options), registry_.get());
    environment_->shared_passes = shared_passes_.get();
  }

  std::unique_ptr<Job> NewJob(const std::string& name, uint64_t seed) {
    TrainJobOptions options = Options(name);
    options.name = name;
    options.sharing_key = "all";
    options.train.model_seed = seed;
    return std::make_unique<Job>(std::move(options));
  }

  // Everything that is known of a job before it runs.
  static SharedPassCandidate CandidateOf(const Job& job) {
    return {.job = job.options.name,
            .key = job.options.sharing_key,
            .epoch = job.options.data.EpochOfBatches(0),
            .join = job.options.join};
  }

  void RunOne(Job& job) {
    const auto metrics =
        NewTrainMetrics(*registry_, job.options.name, "memory");
    job.report = RunTrainJob(*environment_, job.options, job.observer, *metrics,
                             job.stop.get_token());
    shared_passes_->Forget(job.options.name);
  }

  // Runs jobs that are expected, each on its thread, until all have ended.
  void RunTogether(const std::vector<Job*>& jobs) {
    for (const Job* job : jobs) shared_passes_->Expect(CandidateOf(*job));
    std::vector<std::jthread> threads;
    threads.reserve(jobs.size());
    for (Job* job : jobs) {
      threads.emplace_back([this, job] { RunOne(*job); });
    }
  }

  // Digest that a job has alone, with the options that it has now.
  std::string DigestAlone(const Job& job, int64_t first_epoch_key = 0) {
    TrainJobOptions options = job.options;
    options.directory += absl::StrCat("-alone", first_epoch_key);
    options.sharing_key.clear();
    options.data.first_epoch_key = first_epoch_key;
    const auto metrics =
        NewTrainMetrics(*registry_, options.name + "-alone", "memory");
    RecordingObserver observer;
    const auto report =
        RunTrainJob(*environment_, options, observer, *metrics, {});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->loss_digest : "";
  }

  std::optional<JobEnvironment> environment_;
  BatchCounts counts_;
};

std::vector<Job*> Pointers(const std::vector<std::unique_ptr<Job>>& jobs) {
  std::vector<Job*> pointers;
  for (const auto& job : jobs) pointers.push_back(job.get());
  return pointers;
}

TEST_F(ConvoyTest, EightJobsReadTheDataOnceAndLearnAsEachAlone) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (uint64_t i = 0; i < 8; ++i) {
    jobs.push_back(NewJob("job-" + std::to_string(i), i));
  }
  jobs[3]->options.checkpoint_every = 2;
  jobs[5]->options.patience = 1;
  jobs[6]->options.data.epochs = 2;
  jobs[6]->options.data.distinct_epochs = 4;
  RunTogether(Pointers(jobs));
  for (const auto& job : jobs) {
    SCOPED_TRACE(job->options.name);
    ASSERT_TRUE(job->report.ok()) << job->report.status();
    EXPECT_EQ(job->report->loss_digest, DigestAlone(*job));
    EXPECT_EQ(job->observer.running, 1);
    EXPECT_THAT(job->report->peers.jobs, SizeIs(7));
    EXPECT_FALSE(job->observer.first_epoch_key.has_value());
  }
  EXPECT_THAT(jobs[0]->observer.epochs, SizeIs(4));
  EXPECT_THAT(jobs[6]->observer.epochs, SizeIs(2));
  EXPECT_THAT(registry_->Text(), HasSubstr("hearth_convoy_members 0"));
  // Only warm memory is left.
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

// A job that was stopped behind its epoch's last training batch needs nothing
// of the pass that another goes on with.
TEST_F(ConvoyTest, AJobThatHasTrainedItsEpochHasNoPartInTheRestOfAnother) {
  const auto done = NewJob("done", 0);
  const auto behind = NewJob("behind", 1);
  const auto stop_after = [this](Job& job, int batches) {
    job.observer.act_at = batches;
    job.observer.act = [&job] { job.stop.request_stop(); };
    RunTogether({&job});
    EXPECT_TRUE(absl::IsCancelled(job.report.status())) << job.report.status();
    job.observer = {};
    job.stop = std::stop_source();
  };
  stop_after(*done, 6);
  stop_after(*behind, 3);
  RunTogether({done.get(), behind.get()});
  for (const Job* job : {done.get(), behind.get()}) {
    SCOPED_TRACE(job->options.name);
    ASSERT_TRUE(job->report.ok()) << job->report.status();
    EXPECT_EQ(job->report->loss_digest, DigestAlone(*job));
    ASSERT_THAT(job->observer.epochs, SizeIs(4));
    for (const EpochReport& epoch : job->observer.epochs) {
      EXPECT_EQ(epoch.training.batches, 6);
    }
  }
}

TEST_F(ConvoyTest, EveryExactStrategyCarriesSeveralJobs) {
  const std::vector<strategy::StrategyOptions> strategies = {
      strategy::MemoryOptions{},
      strategy::MmapOptions{},
      strategy::GnndriveOptions{},
      strategy::GinexOptions{.cpu_cache_bytes = 40000},
      strategy::DiskgnnOptions{},
      strategy::OutreOptions{},
      strategy::ForesightOptions{.cpu_cache_bytes = 40000},
  };
  for (const strategy::StrategyOptions& strategy : strategies) {
    SCOPED_TRACE(strategy::Name(strategy));
    std::optional<PartitionOrder> order;
    if (std::holds_alternative<strategy::OutreOptions>(strategy)) {
      order = PartitionOrder{.parts = 6, .macro_batch_parts = 2};
    }
    const auto reference =
        NewJob(absl::StrCat("reference-", strategy::Name(strategy)), 1);
    reference->options.data.partition_order = order;
    const std::string digest = DigestAlone(*reference);
    std::vector<std::unique_ptr<Job>> jobs;
    for (uint64_t i = 0; i < 4; ++i) {
      const std::string name(strategy::Name(strategy));
      jobs.push_back(NewJob(name + std::to_string(i), i));
      jobs.back()->options.data.strategy = strategy;
      jobs.back()->options.data.partition_order = order;
    }
    jobs[2]->options.train.model_seed = PacedStep::kFailing;
    jobs[3]->observer.act_at = 8;
    jobs[3]->observer.act = [&] { jobs[3]->stop.request_stop(); };
    RunTogether(Pointers(jobs));
    ASSERT_TRUE(jobs[0]->report.ok()) << jobs[0]->report.status();
    ASSERT_TRUE(jobs[1]->report.ok()) << jobs[1]->report.status();
    EXPECT_EQ(jobs[1]->report->loss_digest, digest);
    EXPECT_THAT(std::string(jobs[2]->report.status().message()),
                HasSubstr("out of luck"));
    EXPECT_TRUE(absl::IsCancelled(jobs[3]->report.status()));
    EXPECT_EQ(jobs[3]->observer.training_batches, 8);
    // The job continues from its checkpoint, together with a new one.
    const auto fresh = NewJob("fresh" + jobs[3]->options.name, 1);
    fresh->options.data.strategy = strategy;
    fresh->options.data.partition_order = order;
    jobs[3]->stop = std::stop_source();
    jobs[3]->observer.act_at = -1;
    RunTogether({jobs[3].get(), fresh.get()});
    ASSERT_TRUE(jobs[3]->report.ok()) << jobs[3]->report.status();
    EXPECT_EQ(jobs[3]->report->loss_digest, jobs[0]->report->loss_digest);
    EXPECT_EQ(jobs[3]->observer.training_batches, 24);
    EXPECT_EQ(fresh->report->loss_digest, digest);
  }
}

TEST_F(ConvoyTest, RowsStayInPlaceIfAllRidersTakeThemThere) {
  const auto new_job = [&](const std::string& name, uint64_t seed) {
    auto job = NewJob(name, seed);
    job->options.data.strategy =
        strategy::ForesightOptions{.cpu_cache_bytes = 40000};
    return job;
  };
  const auto reference = NewJob("reference", 1);
  const std::string digest = DigestAlone(*reference);
  EXPECT_EQ(counts_.in_place.exchange(0), 0) << "memory has one matrix";
  counts_.dense = 0;
  const auto a = new_job("a", 0);
  const auto b = new_job("b", 1);
  RunTogether({a.get(), b.get()});
  ASSERT_TRUE(a->report.ok() && b->report.ok()) << b->report.status();
  EXPECT_EQ(b->report->loss_digest, digest);
  // Four epochs of six batches.
  EXPECT_EQ(counts_.in_place.exchange(0), 48);
  EXPECT_EQ(counts_.dense, 0);
  const auto c = new_job("c", 1);
  const auto d = new_job("d", PacedStep::kDense);
  RunTogether({c.get(), d.get()});
  ASSERT_TRUE(c->report.ok() && d->report.ok()) << d->report.status();
  EXPECT_EQ(c->report->loss_digest, digest);
  EXPECT_EQ(counts_.in_place, 0);
  EXPECT_EQ(counts_.dense, 48);
}

TEST_F(ConvoyTest, SomeAreTestedAtOnceOthersLaterOrNever) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (uint64_t i = 0; i < 4; ++i) {
    jobs.push_back(NewJob(absl::StrCat("job-", i), i % 2));
    if (i >= 2) jobs.back()->options.part = TrainPart::kTraining;
  }
  RunTogether(Pointers(jobs));
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->report.ok()) << job->report.status();
    EXPECT_EQ(job->report->loss_digest, DigestAlone(*job));
    EXPECT_EQ(job->report->test_metric.has_value(),
              job->options.part == TrainPart::kAll);
    EXPECT_FALSE(job->report->model_path.empty());
  }
  // Together with a job that trains meanwhile.
  std::vector<std::unique_ptr<Job>> later;
  for (size_t i = 2; i < 4; ++i) {
    later.push_back(std::make_unique<Job>(ForTest(jobs[i]->options)));
    later.back()->options.name += "-test";
  }
  later.push_back(NewJob("another", 1));
  RunTogether(Pointers(later));
  for (const auto& job : later) {
    ASSERT_TRUE(job->report.ok()) << job->report.status();
  }
  EXPECT_EQ(later[0]->report->test_metric, jobs[0]->report->test_metric);
  EXPECT_EQ(later[1]->report->test_metric, jobs[1]->report->test_metric);
  EXPECT_THAT(later[0]->report->peers.jobs, Contains("job-3-test"));
  EXPECT_THAT(later[0]->observer.epochs, SizeIs(0));
  EXPECT_EQ(later[2]->report->loss_digest, jobs[1]->report->loss_digest);
  EXPECT_EQ(later[2]->report->test_metric, jobs[1]->report->test_metric);
}

// Stops and kills leave jobs at any batches of neighboring epochs.
TEST_F(ConvoyTest, MembersStoppedAnywhereGoOnTogether) {
  for (int64_t batch = 1; batch < 24; batch += 5) {
    SCOPED_TRACE(batch);
    std::vector<std::unique_ptr<Job>> jobs;
    for (int64_t i = 0; i < 3; ++i) {
      jobs.push_back(NewJob(std::to_string(batch) + "-" + std::to_string(i),
                            static_cast<uint64_t>(i)));
      Job& job = *jobs.back();
      job.observer.act_at = batch + i * 2;
      job.observer.act = [&job] { job.stop.request_stop(); };
    }
    RunTogether(Pointers(jobs));
    for (const auto& job : jobs) {
      job->stop = std::stop_source();
      job->observer.act_at = -1;
    }
    RunTogether(Pointers(jobs));
    for (const auto& job : jobs) {
      ASSERT_TRUE(job->report.ok()) << job->report.status();
      EXPECT_EQ(job->report->loss_digest, DigestAlone(*job));
      EXPECT_EQ(job->observer.training_batches, 24);
    }
  }
}

TEST_F(ConvoyTest, AllStoppedEndTheConvoy) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  a->observer.act_at = 7;
  a->observer.act = [&] {
    a->stop.request_stop();
    b->stop.request_stop();
  };
  RunTogether({a.get(), b.get()});
  EXPECT_TRUE(absl::IsCancelled(a->report.status()));
  EXPECT_TRUE(absl::IsCancelled(b->report.status()));
  EXPECT_LE(b->observer.training_batches, 7);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(ConvoyTest, OneThatMayJoinBeginsWithTheBatchesThatAreNext) {
  const auto early = NewJob("early", 0);
  const auto late = NewJob("late", 1);
  late->options.join = true;
  std::jthread joining;
  early->observer.on_epoch = [&](const EpochReport& epoch) {
    if (epoch.epoch == 1) {
      EXPECT_NE(shared_passes_->GroupWithPlaceFor(CandidateOf(*late)), nullptr);
      shared_passes_->Expect(CandidateOf(*late));
      joining = std::jthread([&] { RunOne(*late); });
    }
    return absl::OkStatus();
  };
  RunTogether({early.get()});
  joining.join();
  ASSERT_TRUE(early->report.ok()) << early->report.status();
  ASSERT_TRUE(late->report.ok()) << late->report.status();
  EXPECT_EQ(early->report->loss_digest, DigestAlone(*early));
  ASSERT_TRUE(late->observer.first_epoch_key.has_value());
  EXPECT_EQ(*late->observer.first_epoch_key, 1);
  EXPECT_EQ(late->report->loss_digest, DigestAlone(*late, 1));
  EXPECT_NE(late->report->loss_digest, DigestAlone(*late, 0));
  EXPECT_THAT(late->report->peers.jobs, ElementsAre("early"));
}

TEST_F(ConvoyTest, AnyOtherComesWhereItsBatchesAreNext) {
  const auto early = NewJob("early", 0);
  const auto late = NewJob("late", 1);
  early->options.data.epochs = 6;
  for (Job* job : {early.get(), late.get()}) {
    job->options.data.distinct_epochs = 3;
  }
  std::jthread joining;
  std::vector<bool> room;
  early->observer.on_epoch = [&](const EpochReport& /*epoch*/) {
    room.push_back(shared_passes_->GroupWithPlaceFor(CandidateOf(*late)) !=
                   nullptr);
    if (room.back() && !joining.joinable()) {
      shared_passes_->Expect(CandidateOf(*late));
      joining = std::jthread([&] { RunOne(*late); });
    }
    return absl::OkStatus();
  };
  RunTogether({early.get()});
  joining.join();
  // The batches of its first epoch come again after three epochs.
  ASSERT_GE(room.size(), 3u);
  EXPECT_FALSE(room[0]);
  EXPECT_FALSE(room[1]);
  EXPECT_TRUE(room[2]);
  ASSERT_TRUE(late->report.ok()) << late->report.status();
  EXPECT_EQ(late->report->loss_digest, DigestAlone(*late));
  EXPECT_THAT(late->report->peers.jobs, ElementsAre("early"));
}

TEST_F(ConvoyTest, AModelThatFindsNoMemoryHarmsNoOther) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", PacedStep::kLarge);
  // The first job gets its memory together with the strategy's.
  shared_passes_->Expect(CandidateOf(*b));
  std::jthread second;
  a->observer.on_epoch = [&](const EpochReport& epoch) {
    if (epoch.epoch == 2) second = std::jthread([&] { RunOne(*b); });
    return absl::OkStatus();
  };
  b->options.join = true;
  RunTogether({a.get()});
  second.join();
  ASSERT_TRUE(a->report.ok()) << a->report.status();
  EXPECT_TRUE(absl::IsResourceExhausted(b->report.status()))
      << b->report.status();
}

TEST_F(ConvoyTest, AModelThatNeverFitsIsRefusedAloneThoughItComesFirst) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", PacedStep::kLarge);
  shared_passes_->Expect(CandidateOf(*a));
  shared_passes_->Expect(CandidateOf(*b));
  std::jthread first([&] { RunOne(*b); });
  while (!absl::StrContains(registry_->Text(), "hearth_convoy_members 1")) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  RunOne(*a);
  first.join();
  ASSERT_TRUE(a->report.ok()) << a->report.status();
  EXPECT_EQ(a->report->loss_digest, DigestAlone(*a));
  EXPECT_TRUE(absl::IsResourceExhausted(b->report.status()))
      << b->report.status();
  EXPECT_EQ(b->observer.running, 0);
}

TEST_F(ConvoyTest, DamagedDataIsTheErrorOfAll) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  EditManifest([](store::Manifest& manifest) {
    manifest.node_types[0].features.path = "gone.npy";
  });
  RunTogether({a.get(), b.get()});
  EXPECT_FALSE(a->report.ok());
  EXPECT_EQ(a->report.status(), b->report.status());
}

TEST_F(ConvoyTest, OneThatNeverComesKeepsNobodyForLong) {
  UseConvoys({.gather = absl::Milliseconds(10)});
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  shared_passes_->Expect(CandidateOf(*b));
  RunTogether({a.get()});
  ASSERT_TRUE(a->report.ok()) << a->report.status();
  EXPECT_EQ(a->report->loss_digest, DigestAlone(*a));
  // A place is also kept in a group without attached jobs.
  RunTogether({b.get()});
  ASSERT_TRUE(b->report.ok()) << b->report.status();
  EXPECT_EQ(b->report->loss_digest, DigestAlone(*b));
  // The job comes although no group expects it any more.
  const auto last = NewJob("last", 4);
  shared_passes_->Expect(CandidateOf(*last));
  shared_passes_->ForgetAll();
  const auto first = NewJob("first", 5);
  RunTogether({first.get()});
  RunOne(*last);
  EXPECT_TRUE(first->report.ok()) << first->report.status();
  ASSERT_TRUE(last->report.ok()) << last->report.status();
  EXPECT_EQ(last->report->loss_digest, DigestAlone(*last));
  const auto c = NewJob("c", 2);
  const auto d = NewJob("d", 3);
  shared_passes_->Expect(CandidateOf(*d));
  RunTogether({c.get()});
  EXPECT_TRUE(c->report.ok()) << c->report.status();
  // Groups may be destroyed while a job is expected.
  environment_->shared_passes = nullptr;
  shared_passes_.reset();
}

// The next job comes while the strategy of the last one is being returned.
TEST_F(ConvoyTest, AJobThatHasEndedDoesNotWaitForOneThatComesThen) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  absl::Notification a_has_ended;
  b->observer.act_at = 1;
  b->observer.act = [&] { a_has_ended.WaitForNotification(); };
  absl::Notification b_comes;
  std::jthread second;
  memory_->SetOnRelease([&] {
    if (second.joinable() || a->observer.epochs.size() < 4) return;
    shared_passes_->Expect(CandidateOf(*b));
    second = std::jthread([&] { RunOne(*b); });
    b_comes.Notify();
  });
  RunTogether({a.get()});
  a_has_ended.Notify();
  b_comes.WaitForNotification();
  second.join();
  memory_->SetOnRelease(nullptr);
  EXPECT_TRUE(a->report.ok()) << a->report.status();
  ASSERT_TRUE(b->report.ok()) << b->report.status();
  EXPECT_EQ(b->report->loss_digest, DigestAlone(*b));
}

// The job starts over with the batches of its earlier reports.
TEST_F(ConvoyTest, AJobWhoseCheckpointsAreDamagedKeepsItsFirstEpoch) {
  const auto early = NewJob("early", 0);
  const auto late = NewJob("late", 1);
  late->options.join = true;
  std::filesystem::create_directories(late->options.directory);
  std::ofstream(late->options.directory + "/checkpoint.safetensors") << "torn";
  std::jthread joining;
  early->observer.on_epoch = [&](const EpochReport& epoch) {
    if (epoch.epoch == 1) {
      shared_passes_->Expect(CandidateOf(*late));
      joining = std::jthread([&] { RunOne(*late); });
    }
    return absl::OkStatus();
  };
  RunTogether({early.get()});
  joining.join();
  ASSERT_TRUE(late->report.ok()) << late->report.status();
  EXPECT_FALSE(late->observer.warnings.empty());
  EXPECT_FALSE(late->observer.first_epoch_key.has_value());
  EXPECT_EQ(late->report->loss_digest, DigestAlone(*late));
}

TEST_F(ConvoyTest, AnExceptionIsTheErrorOfTheJobThatThrewIt) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  b->observer.act_at = 3;
  b->observer.act = [] { throw std::runtime_error("out of order"); };
  RunTogether({a.get(), b.get()});
  ASSERT_TRUE(a->report.ok()) << a->report.status();
  EXPECT_EQ(a->report->loss_digest, DigestAlone(*a));
  EXPECT_TRUE(absl::IsInternal(b->report.status()));
  EXPECT_THAT(std::string(b->report.status().message()),
              HasSubstr("out of order"));
}

TEST_F(ConvoyTest, NoMoreThanTheMostMembersShareAPass) {
  UseConvoys({.max_jobs = 2});
  std::vector<std::unique_ptr<Job>> jobs;
  for (uint64_t i = 0; i < 4; ++i) {
    jobs.push_back(NewJob("job-" + std::to_string(i), i));
  }
  RunTogether(Pointers(jobs));
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->report.ok()) << job->report.status();
    EXPECT_EQ(job->report->loss_digest, DigestAlone(*job));
    EXPECT_THAT(job->report->peers.jobs, SizeIs(1));
  }
}

TEST(FindLaggardTest, IsSlowAndKeepsTheOthersWaitingForLongerThanAPassTakes) {
  // Exactly twice the median of the others is not slow.
  EXPECT_EQ(FindSlowest({{1, 0}, {2, 9}, {1, 0}}, 1), std::nullopt);
  EXPECT_EQ(FindSlowest({{1, 0}, {2.1, 9}, {1, 0}}, 1), 1);
  // Two other jobs waited 4 s each.
  EXPECT_EQ(FindSlowest({{1, 0}, {1, 0}, {5, 4}}, 8), std::nullopt);
  EXPECT_EQ(FindSlowest({{1, 0}, {1, 0}, {5, 4}}, 7.9), 2);
  // The median of an even number of jobs lies between the middle two.
  EXPECT_EQ(FindSlowest({{1, 0}, {3, 0}, {4, 9}}, 1), std::nullopt);
  EXPECT_EQ(FindSlowest({{1, 0}, {3, 0}, {4.1, 9}}, 1), 2);
  EXPECT_EQ(FindSlowest({{5, 4}}, 0), std::nullopt);
  EXPECT_EQ(FindSlowest({}, 0), std::nullopt);
}

TEST_F(ConvoyTest, ASlowMemberGoesOnByItselfWhereThereIsAPlace) {
  for (const bool may_train_alone : {true, false}) {
    SCOPED_TRACE(may_train_alone);
    std::vector<std::string> asked;
    UseConvoys(
        {.processors = 4, .may_train_alone = [&](const std::string& job) {
           asked.push_back(job);
           return may_train_alone && absl::StartsWith(job, "slow");
         }});
    const std::string suffix = may_train_alone ? "-leaves" : "-stays";
    std::vector<std::unique_ptr<Job>> jobs;
    for (uint64_t i = 0; i < 3; ++i) {
      jobs.push_back(NewJob(absl::StrCat(i, suffix), i));
    }
    const auto slow = NewJob("slow" + suffix, PacedStep::kSlow);
    slow->options.join = true;
    std::vector<Job*> all = Pointers(jobs);
    all.push_back(slow.get());
    RunTogether(all);
    for (const Job* job : all) {
      SCOPED_TRACE(job->options.name);
      ASSERT_TRUE(job->report.ok()) << job->report.status();
      EXPECT_EQ(job->report->loss_digest, DigestAlone(*job));
      EXPECT_EQ(job->observer.running, 1);
      EXPECT_EQ(job->observer.training_batches, 24);
      EXPECT_THAT(job->report->peers.jobs, SizeIs(3));
    }
    EXPECT_THAT(asked, Contains(slow->options.name));
    EXPECT_EQ(memory_->reserved_bytes(), 0u);
  }
}

// The job is cancelled while the data of another one are prepared.
TEST_F(ConvoyTest, OneThatWaitsToComeOnBoardGoesAtOnce) {
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  absl::Notification b_has_gone;
  std::jthread second;
  a->observer.act_at = 2;
  a->observer.act = [&] {
    shared_passes_->Expect(CandidateOf(*b));
    second = std::jthread([&] {
      RunOne(*b);
      b_has_gone.Notify();
    });
    b->stop.request_stop();
    // The pass of the first job does not move meanwhile.
    b_has_gone.WaitForNotification();
  };
  RunTogether({a.get()});
  second.join();
  EXPECT_TRUE(absl::IsCancelled(b->report.status())) << b->report.status();
  ASSERT_TRUE(a->report.ok()) << a->report.status();
  EXPECT_EQ(a->report->loss_digest, DigestAlone(*a));
}

TEST_F(ConvoyTest, EpochsThatEndTogetherAreReportedTogether) {
  std::vector<std::vector<std::string>> together;
  UseConvoys({.processors = 2, .report = [&](absl::Span<JobEpoch> epochs) {
                std::vector<std::string> names;
                for (JobEpoch& epoch : epochs) {
                  names.push_back(epoch.job +
                                  std::to_string(epoch.report.epoch));
                  if (epoch.job == "c" && epoch.report.epoch == 2) {
                    epoch.status = absl::UnavailableError("no disk");
                  }
                }
                together.push_back(names);
              }});
  const auto a = NewJob("a", 0);
  const auto b = NewJob("b", 1);
  const auto c = NewJob("c", 2);
  b->options.data.epochs = 3;
  b->options.data.distinct_epochs = 4;
  RunTogether({a.get(), b.get(), c.get()});
  EXPECT_TRUE(absl::IsUnavailable(c->report.status()));
  ASSERT_THAT(together, SizeIs(4));
  for (auto& names : together) std::sort(names.begin(), names.end());
  EXPECT_THAT(together[0], ElementsAre("a1", "b1", "c1"));
  EXPECT_THAT(together[1], ElementsAre("a2", "b2", "c2"));
  EXPECT_THAT(together[2], ElementsAre("a3", "b3"));
  EXPECT_THAT(together[3], ElementsAre("a4"));
}

}  // namespace
}  // namespace hearth::job
