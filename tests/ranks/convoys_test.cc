// Jobs on several machines that share their passes, as threads of one process.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/pass_board.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_job.h"
#include "engine/model/step/new_train_step.h"
#include "engine/train/model_options.h"
#include "engine/train/rank_group.h"
#include "engine/train/testing/local_group.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

constexpr int kMachines = 3;

// What a job's rank 0 has posted, and who listens.
class Relay {
 public:
  using Listener = std::function<void(const PassTurn&)>;

  void Post(const PassTurn& turn) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    turns_.push_back(turn);
    for (const Listener& listener : listeners_) {
      if (listener) listener(turn);
    }
  }
  void Listen(int rank, Listener listener) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (listener) {
      for (const PassTurn& turn : turns_) listener(turn);
    }
    listeners_[rank] = std::move(listener);
  }

 private:
  absl::Mutex mutex_;
  std::vector<PassTurn> turns_ ABSL_GUARDED_BY(mutex_);
  std::vector<Listener> listeners_ ABSL_GUARDED_BY(mutex_) =
      std::vector<Listener>(kMachines);
};

class LocalBoard final : public PassBoard {
 public:
  using GiveUpFunction = std::function<void(const std::string&)>;

  LocalBoard(std::string attempt, Relay& relay, int rank,
             GiveUpFunction give_up)
      : attempt_(std::move(attempt)),
        relay_(relay),
        rank_(rank),
        give_up_(std::move(give_up)) {}

  const std::string& attempt() const override { return attempt_; }
  void Post(const PassTurn& turn) override { relay_.Post(turn); }
  void Listen(Relay::Listener listener) override {
    relay_.Listen(rank_, std::move(listener));
  }
  void GiveUp(const std::string& attempt) override { give_up_(attempt); }

 private:
  const std::string attempt_;
  Relay& relay_;
  const int rank_;
  const GiveUpFunction give_up_;
};

// A job of all machines.
struct ConvoyJob {
  explicit ConvoyJob(TrainJobOptions job_options)
      : options(std::move(job_options)) {}

  TrainJobOptions options;
  std::vector<std::unique_ptr<train::RankGroup>> groups =
      train::NewLocalGroup(kMachines);
  Relay relay;
  std::vector<RecordingObserver> observers =
      std::vector<RecordingObserver>(kMachines);
  std::vector<std::stop_source> stops =
      std::vector<std::stop_source>(kMachines);
  std::vector<absl::StatusOr<TrainReport>> reports =
      std::vector<absl::StatusOr<TrainReport>>(
          kMachines, absl::UnknownError("did not run"));
  // Where it never comes; -1 = nowhere.
  int missing_at = -1;
};

class ConvoysTest : public JobTest {
 protected:
  ConvoysTest() { new_train_step_ = model::NewTrainStep; }

  void SetUp() override {
    JobTest::SetUp();
    process_ = std::make_unique<JobEnvironment>(Environment());
    for (int rank = 0; rank < kMachines; ++rank) {
      // Ranks differ in how many steps they make at a time.
      machines_.push_back(std::make_unique<SharedPassGroups>(
          SharedPassOptions{.processors = 1 + rank, .gather = gather_},
          nullptr));
    }
  }

  ConvoyJob& Add(const std::string& name, uint64_t seed, int64_t epochs = 4) {
    TrainJobOptions options = Options(name);
    options.name = name;
    options.sharing_key = "data";
    options.data.epochs = epochs;
    options.data.distinct_epochs = 4;
    options.train.model = train::SageOptions{.hidden = 8};
    options.train.dropout = 0.3;
    options.train.model_seed = seed;
    options.train.train_threads = 1;
    return *jobs_.emplace_back(std::make_unique<ConvoyJob>(options));
  }

  void TrainOn(int rank, ConvoyJob& job) {
    std::mt19937 random(static_cast<uint32_t>(seed_ * kMachines + rank));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    LocalBoard board(job.options.name, job.relay, rank,
                     [this](const std::string& attempt) {
                       for (const auto& other : jobs_) {
                         if (other->options.name != attempt) continue;
                         other->groups[0]->End(WaitForPeerError("given up"));
                       }
                     });
    const Ranks ranks = {
        .group = *job.groups[rank], .board = board, .process = *process_};
    JobEnvironment environment = Environment();
    environment.ranks = &ranks;
    environment.shared_passes = machines_[rank].get();
    environment.new_train_step = [&](const train::TrainOptions& train,
                                     const train::ModelShape& shape) {
      return model::NewRankedStep(train, shape, *job.groups[rank]);
    };
    TrainJobOptions own = job.options;
    own.data.window = {.first = rank, .all = kMachines};
    absl::StrAppend(&own.directory, "-", rank);
    const auto metrics = NewTrainMetrics(
        *registry_, absl::StrCat(own.name, "-", rank), "memory");
    job.reports[rank] = RunTrainJob(environment, own, job.observers[rank],
                                    *metrics, job.stops[rank].get_token());
    machines_[rank]->Forget(own.name);
    if (job.reports[rank].ok()) return;
    job.groups[rank]->End(job.reports[rank].status());
    // The leader tells all ranks, some time later.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    for (std::stop_source& stop : job.stops) stop.request_stop();
  }

  // As rank 0's scheduler does, before others go on.
  void Expect(const ConvoyJob& job) {
    machines_[0]->Expect({.job = job.options.name,
                          .key = "data",
                          .epoch = job.options.data.first_epoch_key,
                          .join = job.options.join});
  }
  void Begin(ConvoyJob& job) {
    for (int rank = 0; rank < kMachines; ++rank) {
      if (rank == job.missing_at) continue;
      threads_.emplace_back([this, rank, &job] { TrainOn(rank, job); });
    }
  }

  // Trains all jobs that were added, to their ends.
  void RunAll() {
    for (const auto& job : jobs_) Expect(*job);
    for (const auto& job : jobs_) Begin(*job);
    Join();
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // The digest of the job's losses on one machine with as many trainers.
  std::string DigestAlone(TrainJobOptions options) {
    absl::StrAppend(&options.directory, "-alone-", ++alone_);
    options.data.trainers = kMachines;
    const auto report = Run(options);
    return report.ok() ? report->loss_digest : report.status().ToString();
  }

  void ExpectAsAlone(const ConvoyJob& job) {
    const std::string alone = DigestAlone(job.options);
    for (const auto& report : job.reports) {
      ASSERT_TRUE(report.ok()) << job.options.name << ": " << report.status();
      EXPECT_EQ(report->loss_digest, alone) << job.options.name;
    }
  }

  static void ExpectFailed(const ConvoyJob& job) {
    for (const auto& report : job.reports) {
      EXPECT_FALSE(report.ok()) << job.options.name;
    }
  }

  // Lets all ranks stop after the same batch, as ranks agree to.
  static void StopAfter(ConvoyJob& job, int64_t batches) {
    for (int rank = 0; rank < kMachines; ++rank) {
      job.observers[rank].act_at = batches;
      job.observers[rank].act = [&job, rank] {
        job.stops[rank].request_stop();
      };
    }
  }

  // Fails on one rank alone, once it reports the epoch.
  static void FailAt(ConvoyJob& job, int rank, uint32_t epoch) {
    job.observers[rank].on_epoch =
        [epoch](const EpochReport& report) -> absl::Status {
      if (report.epoch < epoch) return absl::OkStatus();
      return absl::DataLossError("broken");
    };
  }

  // Forgets all jobs, which have ended; rank 0's checkpoints count.
  void Clear() {
    for (const auto& job : jobs_) {
      const std::string& folder = job->options.directory;
      for (int rank = 1; rank < kMachines; ++rank) {
        const std::string copy = absl::StrCat(folder, "-", rank);
        std::filesystem::remove_all(copy);
        std::filesystem::copy(absl::StrCat(folder, "-0"), copy,
                              std::filesystem::copy_options::recursive);
      }
    }
    jobs_.clear();
  }

  absl::Duration gather_ = absl::Seconds(10);
  uint32_t seed_ = 1;
  int alone_ = 0;
  // What all machines use, for as long as their groups live.
  std::unique_ptr<const JobEnvironment> process_;
  std::vector<std::unique_ptr<SharedPassGroups>> machines_;
  std::vector<std::unique_ptr<ConvoyJob>> jobs_;
  std::vector<std::thread> threads_;
};

TEST_F(ConvoysTest, SharePassesAndTrainAsAlone) {
  ConvoyJob& a = Add("a", 1);
  ConvoyJob& b = Add("b", 2);
  ConvoyJob& c = Add("c", 3, /*epochs=*/6);
  RunAll();
  for (const ConvoyJob* job : {&a, &b, &c}) ExpectAsAlone(*job);
  for (const auto& report : a.reports) {
    EXPECT_EQ(report->peers.jobs, (std::set<std::string>{"b", "c"}));
  }
}

TEST_F(ConvoysTest, OneThatLeavesGoesOnLaterAtItsOwnEpoch) {
  ConvoyJob& a = Add("a", 1);
  StopAfter(Add("b", 2), 8);
  RunAll();
  ExpectAsAlone(a);
  for (const auto& report : jobs_[1]->reports) {
    EXPECT_TRUE(absl::IsCancelled(report.status())) << report.status();
  }
  Clear();
  ConvoyJob& b = Add("b", 2);
  ConvoyJob& other = Add("other", 3);
  RunAll();
  ExpectAsAlone(b);
  ExpectAsAlone(other);
}

// All ranks take the same turns, although they notice at different times that
// the job at another epoch has failed.
TEST_F(ConvoysTest, OneThatFailsOnARankLeavesOthersInStep) {
  for (int rank = 0; rank < kMachines; ++rank) {
    SCOPED_TRACE(rank);
    Clear();
    StopAfter(Add(absl::StrCat("late", rank), 1), 14);
    RunAll();
    Clear();
    ConvoyJob& late = Add(absl::StrCat("late", rank), 1);
    ConvoyJob& a = Add(absl::StrCat("a", rank), 2);
    ConvoyJob& b = Add(absl::StrCat("b", rank), 3);
    FailAt(late, rank, 3);
    FailAt(b, (rank + 1) % kMachines, 2);
    RunAll();
    ExpectFailed(late);
    ExpectFailed(b);
    ExpectAsAlone(a);
  }
}

TEST_F(ConvoysTest, OneThatMayJoinBeginsWithTheNextEpoch) {
  ConvoyJob& a = Add("a", 1);
  ConvoyJob& b = Add("b", 2);
  b.options.join = true;
  absl::Notification may_begin;
  a.observers[0].on_epoch = [&](const EpochReport& report) {
    if (report.epoch != 2) return absl::OkStatus();
    Expect(b);
    may_begin.Notify();
    return absl::OkStatus();
  };
  Expect(a);
  Begin(a);
  may_begin.WaitForNotification();
  Begin(b);
  Join();
  ExpectAsAlone(a);
  ASSERT_TRUE(b.observers[0].first_epoch_key.has_value());
  b.options.data.first_epoch_key = *b.observers[0].first_epoch_key;
  b.options.join = false;
  ExpectAsAlone(b);
  EXPECT_EQ(b.reports[1]->peers.jobs, std::set<std::string>{"a"});
}

class ImpatientConvoysTest : public ConvoysTest {
 protected:
  ImpatientConvoysTest() { gather_ = absl::Milliseconds(200); }
};

TEST_F(ImpatientConvoysTest, OneThatARankLacksIsGivenUp) {
  ConvoyJob& a = Add("a", 1);
  ConvoyJob& b = Add("b", 2);
  b.missing_at = 1;
  RunAll();
  ExpectAsAlone(a);
  ExpectFailed(b);
}

TEST_F(ConvoysTest, AMachineThatIsLostEndsAllAndTheyGoOnFromTheirCheckpoints) {
  ConvoyJob& a = Add("a", 1);
  ConvoyJob& b = Add("b", 2);
  a.observers[1].act_at = 9;
  a.observers[1].act = [&] {
    for (ConvoyJob* job : {&a, &b}) {
      job->groups[1]->End(WaitForPeerError("killed"));
    }
  };
  RunAll();
  ExpectFailed(a);
  ExpectFailed(b);
  Clear();
  ConvoyJob& again = Add("a", 1);
  ConvoyJob& other = Add("b", 2);
  RunAll();
  ExpectAsAlone(again);
  ExpectAsAlone(other);
}

// Jobs that come, leave and fail anywhere at any time: nobody waits for ever.
TEST_F(ConvoysTest, AnythingAtAnyTime) {
  for (seed_ = 1; seed_ <= 12; ++seed_) {
    SCOPED_TRACE(seed_);
    std::mt19937 random(seed_);
    Clear();
    for (uint64_t i = 0; i < 4; ++i) {
      ConvoyJob& job = Add(absl::StrCat("job-", seed_, "-", i), i + 1,
                           4 + static_cast<int64_t>(random() % 3));
      job.options.join = random() % 2 == 0;
      const int fate = static_cast<int>(random() % 3);
      if (fate == 1) StopAfter(job, 1 + static_cast<int64_t>(random() % 20));
      if (fate == 2) {
        FailAt(job, static_cast<int>(random() % kMachines), 1 + random() % 3);
      }
    }
    RunAll();
    for (const auto& job : jobs_) {
      if (!job->reports[0].ok()) continue;
      if (job->observers[0].first_epoch_key.has_value()) {
        job->options.data.first_epoch_key = *job->observers[0].first_epoch_key;
      }
      job->options.join = false;
      const std::string alone = DigestAlone(job->options);
      EXPECT_EQ(job->reports[0]->loss_digest, alone);
    }
  }
}

}  // namespace
}  // namespace hearth::job
