#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/job/data/strategy_lease.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/job/run/explain_job.h"
#include "engine/job/run/job_fixture.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using strategy::StrategyOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Share "runtime" of every job.
constexpr uint64_t kRuntimeBytes = 24 * kMiB;

// Jobs of one strategy, with budgets that hold all rows, under various limits.
class FitTest : public JobTest,
                public ::testing::WithParamInterface<StrategyOptions> {
 protected:
  TrainJobOptions Whole(const std::string& directory) const {
    TrainJobOptions options = Options(directory);
    options.data.strategy = GetParam();
    if (strategy::Name(GetParam()) == "outre") {
      options.data.partition_order = PartitionOrder{.parts = 8};
    }
    options.pipeline = {.samplers = 2, .extractors = 3};
    return options;
  }

  // From now on jobs may take `bytes`, on a machine with `capacity` bytes (0 =
  // unknown), and nothing is warm.
  void Limit(uint64_t bytes, uint64_t capacity = 0) {
    warm_strategies_.reset();
    memory_ = std::make_unique<MemoryLedger>(
        bytes, MachineMemory{.available = [] { return 0; },
                             .used = [] { return 0; },
                             .capacity = capacity});
    warm_strategies_ = std::make_unique<WarmStrategies>(
        io::FileSystem::Posix(), *memory_, root_ + "/scratch");
  }

  // Runs the job without cuts, under a limit at which its batches are measured.
  WholeReport RunWhole(const TrainJobOptions& options) {
    TrainJobOptions first = options;
    first.directory += "-first";
    const auto unlimited = Run(first);
    EXPECT_TRUE(unlimited.ok()) << unlimited.status();
    if (!unlimited.ok()) return {};
    Limit(unlimited->memory.TotalBytes());
    const auto whole = Run(options);
    EXPECT_TRUE(whole.ok()) << whole.status();
    if (!whole.ok()) return {};
    EXPECT_THAT(whole->cuts, IsEmpty());
    EXPECT_EQ(whole->loss_digest, unlimited->loss_digest);
    return *whole;
  }

  absl::StatusOr<ExplainReport> Explain(const TrainJobOptions& options) {
    return RunExplainJob(Environment(), options, observer_, {});
  }
};

TEST_P(FitTest, WhatIsCutChangesNoResult) {
  const WholeReport whole = RunWhole(Whole("whole"));
  const uint64_t needed = whole.memory.TotalBytes();
  uint64_t before = needed;
  for (uint64_t limit = needed - 1;; limit -= (limit - kRuntimeBytes) / 4) {
    SCOPED_TRACE(limit);
    Limit(limit);
    const std::string directory = absl::StrCat("cut", limit);
    const auto cut = Run(Whole(directory));
    if (!cut.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(cut.status())) << cut.status();
      EXPECT_EQ(WaitCauseOf(cut.status()), WaitCause::kNone);
      EXPECT_THAT(std::string(cut.status().message()),
                  AllOf(HasSubstr("needs at least"), HasSubstr("runtime"),
                        HasSubstr("memory limit"), HasSubstr("batch_size")));
      EXPECT_LT(before, needed) << "nothing was cut at all";
      break;
    }
    EXPECT_THAT(cut->cuts, Not(IsEmpty()));
    EXPECT_EQ(cut->loss_digest, whole.loss_digest);
    EXPECT_EQ(cut->test_metric, whole.test_metric);
    EXPECT_LE(cut->memory.TotalBytes(), limit);
    EXPECT_LE(cut->memory.TotalBytes(), before);
    EXPECT_EQ(cut->memory_limit_bytes, limit);
    for (const strategy::BudgetCut& one : cut->cuts) {
      EXPECT_LT(one.chosen, one.asked);
      EXPECT_THAT(observer_.log, HasSubstr(strategy::Describe(one)));
    }
    before = cut->memory.TotalBytes();
  }
}

TEST_P(FitTest, AMachineWithLessThanTheLimitCutsAsTheLimitDoes) {
  const WholeReport whole = RunWhole(Whole("whole"));
  const uint64_t less = whole.memory.TotalBytes() - 1;
  Limit(less);
  const auto limited = Run(Whole("limited"));
  ASSERT_TRUE(limited.ok()) << limited.status();
  Limit(uint64_t{1} << 50, less);
  const auto on_machine = Run(Whole("on_machine"));
  ASSERT_TRUE(on_machine.ok()) << on_machine.status();
  EXPECT_THAT(on_machine->cuts, Not(IsEmpty()));
  EXPECT_EQ(on_machine->cuts, limited->cuts);
  EXPECT_EQ(on_machine->memory.TotalBytes(), limited->memory.TotalBytes());
}

TEST_P(FitTest, AnExplanationTellsTheSameCuts) {
  // More than a forecast takes to measure the machine.
  TrainJobOptions options = Whole("whole");
  options.pipeline = {.samplers = 4, .extractors = 12};
  std::visit(
      [](auto& chosen) {
        if constexpr (requires { chosen.hot; }) {
          chosen.staging_bytes = 400 * kMiB;
        } else if constexpr (requires { chosen.io_depth; }) {
          chosen.io_depth = 4096;
        }
      },
      options.data.strategy);
  Limit(RunWhole(options).memory.TotalBytes() - 1);
  const auto explained = Explain(options);
  ASSERT_TRUE(explained.ok()) << explained.status();
  options.directory += "-cut";
  const auto cut = Run(options);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(explained->cuts, Not(IsEmpty()));
  EXPECT_EQ(explained->cuts, cut->cuts);
  EXPECT_EQ(explained->memory_bytes, cut->memory.TotalBytes());
  EXPECT_EQ(explained->memory_limit_bytes, cut->memory_limit_bytes);
}

TEST_P(FitTest, StrictBudgetsAreRefused) {
  TrainJobOptions options = Whole("strict");
  options.data.strict_budgets = true;
  const WholeReport whole = RunWhole(options);
  // Without checksums of rows, all features are verified at once.
  uint64_t needed = whole.memory.TotalBytes();
  for (const strategy::MemoryShare& share : whole.memory.shares) {
    if (share.owner == "row checksums") needed -= share.bytes;
  }
  options.directory += "-again";
  Limit(needed);
  EXPECT_TRUE(Run(options).ok());
  options.directory += "-again";
  Limit(needed - 1);
  const auto refused = Run(options);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(WaitCauseOf(refused.status()), WaitCause::kNone);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("the job may need"));
}

TEST_P(FitTest, AJobGoesOnUnderAnotherLimit) {
  const WholeReport whole = RunWhole(Whole("whole"));
  std::stop_source stop;
  observer_.training_batches = 0;
  observer_.act_at = 8;
  observer_.act = [&] { stop.request_stop(); };
  const auto stopped = Run(Whole("resumed"), stop.get_token());
  ASSERT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  Limit(whole.memory.TotalBytes() - 1);
  const auto resumed = Run(Whole("resumed"));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_THAT(resumed->cuts, Not(IsEmpty()));
  EXPECT_EQ(resumed->resumes, 1u);
  EXPECT_EQ(resumed->loss_digest, whole.loss_digest);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, FitTest,
    ::testing::Values(
        StrategyOptions(strategy::MemoryOptions{}),
        StrategyOptions(strategy::MmapOptions{}),
        StrategyOptions(strategy::GnndriveOptions{.cpu_cache_bytes = kMiB,
                                                  .staging_bytes = kMiB}),
        StrategyOptions(strategy::GinexOptions{.cpu_cache_bytes = kMiB,
                                               .neighbor_cache_bytes = 2 * kMiB,
                                               .superbatch = 4}),
        StrategyOptions(strategy::DiskgnnOptions{.cpu_cache_bytes = kMiB}),
        StrategyOptions(strategy::OutreOptions{.cpu_cache_bytes = kMiB}),
        StrategyOptions(strategy::GidsOptions{})),
    [](const auto& info) { return strategy::Name(info.param); });

using AutoBudgetTest = JobTest;

TEST_F(AutoBudgetTest, IsAllRowsButAtMostHalfOfTheLimit) {
  TrainJobOptions options = Options("auto");
  options.data.strategy =
      strategy::GinexOptions{.cpu_cache_bytes = strategy::kAutoBytes};
  const auto all = Run(options);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->cuts, IsEmpty());
  options.directory += "-given";
  options.data.strategy =
      strategy::GinexOptions{.cpu_cache_bytes = uint64_t{1} << 30};
  const auto given = Run(options);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(all->loss_digest, given->loss_digest);
  EXPECT_EQ(all->memory.TotalBytes(), given->memory.TotalBytes());
}

}  // namespace
}  // namespace hearth::job
