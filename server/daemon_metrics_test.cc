#include "server/daemon_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "engine/base/version.h"
#include "server/jobs/scheduler.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NoRunner final : public JobRunner {
 public:
  absl::StatusOr<v1::JobReport> Run(const v1::Job&, JobEvents&,
                                    std::stop_token) override {
    return absl::UnimplementedError("runs nothing");
  }
};

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
    scheduler_ = std::make_unique<Scheduler>(*store_, runner_, memory_, plans_,
                                             Clock::Real(), SchedulerOptions());
  }

  DaemonMetricsParts Parts() {
    return {.registry = *registry_,
            .store = *store_,
            .scheduler = *scheduler_,
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
  NoRunner runner_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(DaemonMetricsTest, FiguresAreThoseOfTheCollection) {
  const auto daemon = NewDaemonMetrics(Parts(), "2.11.0");
  EXPECT_THAT(registry_->Text(), HasSubstr("hearth_jobs{state=\"queued\"} 0"));
  v1::JobSpec spec;
  spec.mutable_import()->set_name("a");
  ASSERT_TRUE(store_->Submit("", spec).ok());
  EXPECT_THAT(registry_->Text(), HasSubstr("hearth_queue_longest_seconds 0"));
  scheduler_->Enqueue(*store_->Get("import-1"));
  while (scheduler_->LongestQueueSeconds() == 0) {
  }
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
  const auto daemon = NewDaemonMetrics(Parts(), "2.11.0");
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
  NewDaemonMetrics(Parts(), "");
  EXPECT_EQ(registry_->Text(), "");
}

TEST_F(DaemonMetricsTest, PromtoolAcceptsThem) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool is not installed";
  }
  const auto daemon = NewDaemonMetrics(Parts(), "2.11.0");
  const std::string file = path_ + "/metrics.txt";
  std::ofstream(file) << registry_->Text();
  EXPECT_EQ(std::system(absl::StrCat("promtool check metrics <", file).c_str()),
            0);
}

}  // namespace
}  // namespace hearth::server
