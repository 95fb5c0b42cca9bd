// Whole jobs whose batches several machines share, as threads of one process.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/train_job.h"
#include "engine/model/step/new_train_step.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"
#include "engine/train/rank_group.h"
#include "engine/train/testing/local_group.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using Reports = std::vector<absl::StatusOr<TrainReport>>;

class RanksTest : public JobTest {
 protected:
  RanksTest() { new_train_step_ = model::NewTrainStep; }

  TrainJobOptions Options(const std::string& directory) const {
    TrainJobOptions options = JobTest::Options(directory);
    options.train.model = train::SageOptions{.hidden = 8};
    options.train.dropout = 0.3;
    return options;
  }

  // The job on `size` ranks with `each` trainers; epochs of rank r are in
  // epochs_[r].
  Reports RunOnRanks(const TrainJobOptions& options, int size,
                     int64_t each = 1) {
    const auto groups = train::NewLocalGroup(size);
    std::vector<RecordingObserver> observers(static_cast<size_t>(size));
    Reports reports(static_cast<size_t>(size),
                    absl::UnknownError("did not end"));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        JobEnvironment environment = Environment(
            rank == size - 1 ? files_of_last_ : io::FileSystem::Posix());
        environment.new_train_step = [group = groups[rank].get()](
                                         const train::TrainOptions& train,
                                         const train::ModelShape& shape) {
          return model::NewRankedStep(train, shape, *group);
        };
        TrainJobOptions own = options;
        own.data.trainers = each;
        own.data.window = {.first = rank * each, .all = size * each};
        absl::StrAppend(&own.directory, "-of-", size, "-", rank);
        const auto metrics =
            NewTrainMetrics(*registry_, absl::StrCat("rank-", rank), "memory");
        reports[rank] =
            RunTrainJob(environment, own, observers[rank], *metrics, {});
        groups[rank]->End(reports[rank].ok() ? absl::UnavailableError("done")
                                             : reports[rank].status());
      });
    }
    for (std::thread& thread : threads) thread.join();
    rank_epochs_.clear();
    for (const RecordingObserver& observer : observers) {
      rank_epochs_.push_back(observer.epochs);
    }
    warnings_of_last_ = observers.back().warnings;
    return reports;
  }

  static std::string ModelOf(const TrainReport& report) {
    return *io::ReadWholeFile(io::FileSystem::Posix(),
                              report.model_path + "/model.safetensors",
                              1 << 20);
  }

  // Expects that ranks report what one machine does with as many trainers.
  void ExpectSameAsTrainers(TrainJobOptions options, int size) {
    const Reports reports = RunOnRanks(options, size);
    options.data.trainers = size;
    observer_ = {};
    const auto expected = Run(options);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_TRUE(reports[rank].ok()) << reports[rank].status();
      EXPECT_EQ(reports[rank]->loss_digest, expected->loss_digest);
      EXPECT_EQ(reports[rank]->test_metric, expected->test_metric);
      EXPECT_EQ(reports[rank]->kept_epoch, expected->kept_epoch);
      EXPECT_EQ(ModelOf(*reports[rank]), ModelOf(*expected));
      ASSERT_EQ(rank_epochs_[rank].size(), expected->epochs.size());
      for (size_t i = 0; i < expected->epochs.size(); ++i) {
        EXPECT_EQ(rank_epochs_[rank][i].loss, expected->epochs[i].loss);
        EXPECT_EQ(rank_epochs_[rank][i].valid_metric,
                  expected->epochs[i].valid_metric);
      }
    }
  }

  std::vector<std::vector<EpochReport>> rank_epochs_;
  // Of the last rank.
  io::FaultyFileSystem files_of_last_{io::FileSystem::Posix()};
  std::vector<std::string> warnings_of_last_;
};

TEST_F(RanksTest, ReportWhatAsManyTrainersDo) {
  for (const int size : {2, 3}) {
    ExpectSameAsTrainers(Options(absl::StrCat("a", size)), size);
  }
}

TEST_F(RanksTest, WithEveryExactStrategy) {
  const std::vector<strategy::StrategyOptions> strategies = {
      strategy::MmapOptions{},
      strategy::GnndriveOptions{.cpu_cache_bytes = 4096},
      strategy::GinexOptions{.cpu_cache_bytes = 4096, .superbatch = 4},
      strategy::DiskgnnOptions{.cpu_cache_bytes = 4096,
                               .prepare_memory_bytes = 16 << 20},
      strategy::GidsOptions{.cpu_cache_bytes = 4096,
                            .window_cache_bytes = 4096},
      strategy::ForesightOptions{.cpu_cache_bytes = 4096}};
  TrainJobOptions options = Options("memory");
  options.data.trainers = 2;
  const auto expected = Run(options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const strategy::StrategyOptions& strategy : strategies) {
    SCOPED_TRACE(strategy::Name(strategy));
    options = Options(strategy::Name(strategy));
    options.data.strategy = strategy;
    for (const auto& report : RunOnRanks(options, 2)) {
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->loss_digest, expected->loss_digest);
      EXPECT_EQ(report->test_metric, expected->test_metric);
    }
  }
}

TEST_F(RanksTest, StopEarlyTogether) {
  TrainJobOptions options = Options("a");
  options.data.epochs = 40;
  options.patience = 2;
  ExpectSameAsTrainers(options, 2);
  EXPECT_LT(rank_epochs_.front().size(), 40u);
}

// A batch of fewer seeds than ranks leaves some without.
TEST_F(RanksTest, SomeHaveNoSeedsInAShortBatch) {
  TrainJobOptions options = Options("a");
  options.data.batch_size = 359;
  ExpectSameAsTrainers(options, 3);
}

TEST_F(RanksTest, WithSeveralTrainersEach) {
  const TrainJobOptions options = Options("a");
  const Reports reports = RunOnRanks(options, 2, 2);
  ASSERT_TRUE(reports[0].ok() && reports[1].ok()) << reports[0].status();
  EXPECT_EQ(reports[0]->loss_digest, reports[1]->loss_digest);
  EXPECT_EQ(ModelOf(*reports[0]), ModelOf(*reports[1]));
}

TEST_F(RanksTest, AHistoryIsRefused) {
  TrainJobOptions options = Options("a");
  options.data.history = HistoryOptions{};
  for (const auto& report : RunOnRanks(options, 2)) {
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_TRUE(absl::StrContains(report.status().message(), "history"));
  }
}

TEST_F(RanksTest, StrategiesThatAreNotExactAreRefused) {
  for (const strategy::StrategyOptions& strategy :
       {strategy::StrategyOptions(strategy::GnndriveOptions{.reorder = true}),
        strategy::StrategyOptions(strategy::MariusOptions{})}) {
    TrainJobOptions options = Options(strategy::Name(strategy));
    options.data.strategy = strategy;
    for (const auto& report : RunOnRanks(options, 2)) {
      EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
      EXPECT_TRUE(absl::StrContains(report.status().message(), "exact"));
    }
  }
}

// The first rank's checkpoints count.
TEST_F(RanksTest, OneWithoutRoomForItsCopyOfACheckpointGoesOn) {
  files_of_last_.Inject(
      {.for_good = true, .path_end = "checkpoint.safetensors.tmp"});
  ExpectSameAsTrainers(Options("a"), 2);
  EXPECT_GT(files_of_last_.hits(), 0);
  ASSERT_FALSE(warnings_of_last_.empty());
  EXPECT_TRUE(absl::StrContains(warnings_of_last_.front(), "no copy of"))
      << warnings_of_last_.front();
}

TEST_F(RanksTest, OneThatFailsEndsAll) {
  // Rank 1 has no dataset.
  const auto groups = train::NewLocalGroup(2);
  TrainJobOptions options = Options("a");
  options.data.window = {.first = 0, .all = 2};
  std::thread other([&] { groups[1]->End(absl::NotFoundError("no dataset")); });
  new_train_step_ = [&](const train::TrainOptions& train,
                        const train::ModelShape& shape) {
    return model::NewRankedStep(train, shape, *groups[0]);
  };
  const auto report = Run(options);
  other.join();
  EXPECT_TRUE(absl::IsNotFound(report.status())) << report.status();
}

}  // namespace
}  // namespace hearth::job
