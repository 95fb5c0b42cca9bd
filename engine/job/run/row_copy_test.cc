#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/job/run/explain_job.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/train_job.h"
#include "engine/plan/plan_store.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/row_codec.h"
#include "engine/strategy/kinds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Jobs with rows of another type.
class RowCopyTest : public JobTest,
                    public ::testing::WithParamInterface<store::DType> {
 protected:
  TrainJobOptions Rounded(const std::string& directory) const {
    TrainJobOptions options = Options(directory);
    options.data.row_dtype = GetParam();
    return options;
  }

  std::string name() const {
    return absl::StrCat(
        "rows-",
        (*store::Dataset::Open(io::FileSystem::Posix(), dataset_))
            ->manifest()
            .fingerprint,
        "-", store::RowTypeName(GetParam()));
  }
  std::string folder() const { return root_ + "/plans/" + name(); }
  std::string rows_file() const {
    return absl::StrCat(folder(), "/0.", store::RowTypeName(GetParam()),
                        ".npy");
  }

  // How often the copy was made, by the log.
  int TimesMade() const {
    const std::vector<std::string> parts =
        absl::StrSplit(observer_.log, "rows " + name() + " made in");
    return static_cast<int>(parts.size()) - 1;
  }

  // Prepares the copy alone, through `files`, whose plans are in a folder of
  // their own.
  absl::Status Prepare(io::FileSystem& files, std::stop_token stop = {}) {
    plan::PlanStore plans(files, Clock::Real(), {.folder = root_ + "/faulty"});
    const JobEnvironment environment = {
        .files = files,
        .read_queues = *read_queues_,
        .clock = Clock::Real(),
        .running_jobs = running_jobs_,
        .memory = *memory_,
        .warm_strategies = *warm_strategies_,
        .batch_measurement = *batch_measurement_,
        .plans = plans,
        .new_train_step = new_train_step_};
    const TrainJobOptions options = Rounded("a");
    return RunPrepareJob(environment,
                         {.data = options.data, .pipeline = options.pipeline},
                         observer_, std::move(stop))
        .status();
  }

  // Files of the copy that Prepare has left.
  std::vector<std::string> Left() const {
    const std::string left = root_ + "/faulty/" + name();
    std::vector<std::string> files;
    if (!std::filesystem::exists(left)) return files;
    for (const auto& file : std::filesystem::directory_iterator(left)) {
      files.push_back(file.path().filename());
    }
    return files;
  }
};

TEST_P(RowCopyTest, EveryStrategyGivesTheResultsOfMemory) {
  const auto expected = Run(Rounded("memory"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_FALSE(expected->exact);
  EXPECT_EQ(expected->row_dtype, store::RowTypeName(GetParam()));
  EXPECT_LE(expected->peak_memory_bytes, expected->memory_bound_bytes);
  const auto exact = Run(Options("exact"));
  EXPECT_TRUE(exact->exact);
  EXPECT_EQ(exact->row_dtype, "");
  EXPECT_FALSE(exact->warm_start);
  EXPECT_NE(exact->loss_digest, expected->loss_digest);
  // Losses are near, as rounding is.
  EXPECT_NEAR(exact->epochs[0].loss, expected->epochs[0].loss, 0.01);
  for (const auto& strategy : std::vector<strategy::StrategyOptions>{
           strategy::MmapOptions{},
           strategy::GnndriveOptions{.cpu_cache_bytes = 16384},
           strategy::GinexOptions{.cpu_cache_bytes = 16384},
           strategy::DiskgnnOptions{.cpu_cache_bytes = 8192},
           strategy::GidsOptions{.cpu_cache_bytes = 8192}}) {
    TrainJobOptions options = Rounded(strategy::Name(strategy));
    options.data.strategy = strategy;
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected->loss_digest)
        << strategy::Name(strategy);
  }
}

TEST_P(RowCopyTest, TheCopyIsMadeOnceAndUsedWhileJobsRun) {
  observer_.act_at = 1;
  observer_.act = [&] { EXPECT_TRUE(plans_->Get(name())->in_use); };
  const auto first = Run(Rounded("a"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(observer_.phases.contains("converting rows"));
  EXPECT_EQ(TimesMade(), 1);
  EXPECT_THAT(observer_.log,
              AllOf(HasSubstr("rows " + name() + ": "),
                    HasSubstr("in place of 80 bytes a row as float32")));
  const plan::PlanInfo plan = *plans_->Get(name());
  EXPECT_EQ(plan.state, plan::PlanInfo::State::kWhole);
  EXPECT_FALSE(plan.in_use);
  const auto second = Run(Rounded("b"));
  EXPECT_TRUE(second->warm_start);
  EXPECT_EQ(second->loss_digest, first->loss_digest);
  EXPECT_EQ(TimesMade(), 1);
  EXPECT_THAT(observer_.log, HasSubstr("rows " + name() + " reused: "));
}

TEST_P(RowCopyTest, AWarmStrategyGoesWithItsCopy) {
  TrainJobOptions options = Rounded("a");
  options.data.strategy = strategy::MmapOptions{};
  const auto first = Run(options);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(plans_->Remove(name()), absl::OkStatus());
  options.directory += "again";
  const auto second = Run(options);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->warm_start);
  EXPECT_EQ(second->loss_digest, first->loss_digest);
  EXPECT_EQ(TimesMade(), 2);
}

TEST_P(RowCopyTest, ADamagedCopyIsNamedAndMadeAgain) {
  TrainJobOptions options = Rounded("a");
  options.data.strategy = strategy::GnndriveOptions{.cpu_cache_bytes = 16384};
  const auto expected = Run(options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  warm_strategies_->Forget(dataset_);
  {
    std::fstream file(rows_file(),
                      std::ios::in | std::ios::out | std::ios::binary);
    for (int at = 4096; at < 12000; at += 16) {
      file.seekp(at);
      file.put('!');
    }
  }
  options.directory += "damaged";
  const absl::Status damaged = Run(options).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_THAT(std::string(damaged.message()), HasSubstr(rows_file()));
  EXPECT_EQ(plans_->Get(name())->state, plan::PlanInfo::State::kDamaged);
  options.directory += "again";
  const auto again = Run(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->loss_digest, expected->loss_digest);
  EXPECT_EQ(plans_->Get(name())->state, plan::PlanInfo::State::kWhole);
}

TEST_P(RowCopyTest, AnUnfinishedCopyIsMadeAgain) {
  const auto expected = Run(Rounded("a"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const std::string lost : {"manifest.json", "about.json"}) {
    warm_strategies_->Forget(dataset_);
    std::filesystem::remove(folder() + "/" + lost);
    std::filesystem::resize_file(rows_file(), 5000);
    const auto again = Run(Rounded("without" + lost));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->loss_digest, expected->loss_digest);
  }
}

TEST_P(RowCopyTest, AFullDiskLeavesNothingAndIsWaitedFor) {
  io::FaultyFileSystem files(io::FileSystem::Posix());
  files.LimitSpace(10'000);
  const absl::Status full = Prepare(files);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(WaitCauseOf(full), WaitCause::kDiskSpace);
  EXPECT_THAT(std::string(full.message()), HasSubstr(name()));
  EXPECT_THAT(Left(), ::testing::IsEmpty());
}

TEST_P(RowCopyTest, AFaultLeavesNothingOfTheCopy) {
  io::FaultyFileSystem files(io::FileSystem::Posix());
  for (const char* end :
       {".npy", ".npy.crc", ".rows.crc", "manifest.json.tmp"}) {
    files.Inject({.only = io::Operation::kWrite, .path_end = end});
    EXPECT_FALSE(Prepare(files).ok()) << end;
    EXPECT_EQ(files.hits(), 1) << end;
    EXPECT_THAT(Left(), ::testing::IsEmpty()) << end;
  }
  files.Clear();
  EXPECT_EQ(Prepare(files), absl::OkStatus());
  EXPECT_THAT(Left(), ::testing::Contains("manifest.json"));
}

TEST_P(RowCopyTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const absl::Status stopped =
      Prepare(io::FileSystem::Posix(), stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
}

TEST_P(RowCopyTest, AForecastCountsTheRowsAndMakesNoCopy) {
  TrainJobOptions options = Rounded("a");
  const auto bytes_a_row = [&](const TrainJobOptions& job) {
    const auto report = RunExplainJob(Environment(), job, observer_, {});
    EXPECT_TRUE(report.ok()) << report.status();
    return report->bytes_needed / report->rows_needed;
  };
  for (const auto& strategy : std::vector<strategy::StrategyOptions>{
           strategy::MemoryOptions{},
           strategy::DiskgnnOptions{.cpu_cache_bytes = 8192},
           strategy::GidsOptions{.cpu_cache_bytes = 8192}}) {
    options.data.strategy = strategy;
    EXPECT_EQ(bytes_a_row(options), store::RowBytes(20, GetParam()))
        << strategy::Name(strategy);
  }
  EXPECT_TRUE(absl::IsNotFound(plans_->Get(name()).status()));
}

INSTANTIATE_TEST_SUITE_P(Types, RowCopyTest,
                         ::testing::Values(store::DType::kBFloat16,
                                           store::DType::kScaledInt8),
                         [](const auto& info) {
                           return std::string(store::RowTypeName(info.param));
                         });

class RowsAsStoredTest : public JobTest {};

TEST_F(RowsAsStoredTest, StayWhereTheyTakeNoMoreBytes) {
  Import({.half_features = true});
  const auto exact = Run(Options("exact"));
  TrainJobOptions options = Options("a");
  options.data.row_dtype = store::DType::kBFloat16;
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->exact);
  EXPECT_EQ(report->row_dtype, "");
  EXPECT_TRUE(report->warm_start);
  EXPECT_EQ(report->loss_digest, exact->loss_digest);
  EXPECT_THAT(observer_.log,
              AllOf(HasSubstr("rows stay as they are stored, 40 bytes a row"),
                    Not(HasSubstr("converting"))));
}

}  // namespace
}  // namespace hearth::job
