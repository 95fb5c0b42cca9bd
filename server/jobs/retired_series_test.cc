#include "server/jobs/retired_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

namespace hearth::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
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

}  // namespace
}  // namespace hearth::server
