#include "engine/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace hearth::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RegistryTest, SeriesShowTheirValues) {
  const auto registry = NewRegistry();
  const auto counter = registry->NewCounter("hearth_reads_total", "Reads.",
                                            {{"device", "disk0"}});
  counter->Add(2);
  counter->Add(0.5);
  const auto gauge = registry->NewGauge("hearth_queue_length", "Length.", {});
  gauge->Set(7);
  gauge->Set(-3);
  EXPECT_THAT(registry->Text(),
              HasSubstr("hearth_reads_total{device=\"disk0\"} 2.5"));
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_queue_length -3"));
  EXPECT_THAT(registry->Text(), HasSubstr("# HELP hearth_reads_total Reads."));
}

TEST(RegistryTest, HistogramCountsIntoItsBuckets) {
  const auto registry = NewRegistry();
  const auto histogram =
      registry->NewHistogram("hearth_read_seconds", "Latency.", {}, {0.1, 1});
  histogram->Observe(0.05);
  histogram->Observe(0.5);
  histogram->Observe(5);
  const std::string text = registry->Text();
  EXPECT_THAT(text, HasSubstr("hearth_read_seconds_bucket{le=\"0.1\"} 1"));
  EXPECT_THAT(text, HasSubstr("hearth_read_seconds_bucket{le=\"1\"} 2"));
  EXPECT_THAT(text, HasSubstr("hearth_read_seconds_count 3"));
}

TEST(RegistryTest, ASeriesGoesWithItsHandle) {
  const auto registry = NewRegistry();
  auto one = registry->NewGauge("hearth_loss", "Loss.", {{"job", "train-1"}});
  auto two = registry->NewGauge("hearth_loss", "Loss.", {{"job", "train-2"}});
  one.reset();
  EXPECT_THAT(registry->Text(), Not(HasSubstr("train-1")));
  EXPECT_THAT(registry->Text(), HasSubstr("train-2"));
  two.reset();
  EXPECT_EQ(registry->Text(), "");
}

TEST(RegistryTest, HandlesOfEqualLabelsShareASeries) {
  const auto registry = NewRegistry();
  auto first = registry->NewCounter("hearth_x_total", "X.", {{"a", "b"}});
  auto second = registry->NewCounter("hearth_x_total", "X.", {{"a", "b"}});
  first->Add(1);
  second->Add(2);
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_x_total{a=\"b\"} 3"));
  first.reset();
  second->Add(1);
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_x_total{a=\"b\"} 4"));
  second.reset();
  const auto anew = registry->NewCounter("hearth_x_total", "X.", {{"a", "b"}});
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_x_total{a=\"b\"} 0"));
}

TEST(RegistryTest, SeriesMayComeAndGoOnManyThreadsWhileCollected) {
  const auto registry = NewRegistry();
  const auto total = registry->NewCounter("hearth_y_total", "Y.", {});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        registry->NewCounter("hearth_y_total", "Y.", {})->Add(1);
        registry->NewGauge("hearth_z", "Z.", {{"i", absl::StrCat(i % 5)}})
            ->Set(i);
      }
    });
  }
  for (int i = 0; i < 50; ++i) registry->Text();
  threads.clear();
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_y_total 800"));
  EXPECT_THAT(registry->Text(), Not(HasSubstr("hearth_z{")));
}

TEST(RegistryTest, HooksRunBeforeEachCollectionUntilDestroyed) {
  const auto registry = NewRegistry();
  const auto gauge = registry->NewGauge("hearth_calls", "Calls.", {});
  int calls = 0;
  auto hook = registry->NewCollectHook([&] { gauge->Set(++calls); });
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_calls 1"));
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_calls 2"));
  hook.reset();
  EXPECT_THAT(registry->Text(), HasSubstr("hearth_calls 2"));
}

TEST(RegistryTest, AHookMayDropSeries) {
  const auto registry = NewRegistry();
  auto gauge = registry->NewGauge("hearth_old", "Old.", {});
  const auto hook = registry->NewCollectHook([&] { gauge.reset(); });
  EXPECT_EQ(registry->Text(), "");
}

TEST(RegistryTest, PromtoolAcceptsTheText) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool is not installed";
  }
  const auto registry = NewRegistry();
  const auto counter = registry->NewCounter("hearth_reads_total", "Reads.", {});
  const auto gauge =
      registry->NewGauge("hearth_memory_bytes", "Memory.", {{"a", "\"b\"\n"}});
  const auto histogram =
      registry->NewHistogram("hearth_read_seconds", "Latency.", {}, {0.1, 1});
  const std::string path = absl::StrCat(testing::TempDir(), "/metrics.txt");
  std::ofstream(path) << registry->Text();
  EXPECT_EQ(std::system(absl::StrCat("promtool check metrics <", path).c_str()),
            0);
}

}  // namespace
}  // namespace hearth::metrics
