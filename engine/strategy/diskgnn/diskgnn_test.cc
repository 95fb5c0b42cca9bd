// DiskGNN beyond the suite that all strategies share: budgets, plans that are
// found again, damaged plans, failures and stops of preparation and passes.

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/testing/faults.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/planning_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using DiskgnnTest = PlanningHarness;

// Too little disk to pack all rows (750 KB), more than the least (280 KB):
// there is a disk cache.
constexpr DiskgnnOptions kSome = {
    .cpu_cache_bytes = 20 * 148, .disk_limit_bytes = 400'000, .io_depth = 4};

struct Budgets {
  DiskgnnOptions options;
  // Whether some rows are left to the disk cache.
  bool disk_cache = false;
};

TEST_F(DiskgnnTest, AnySplitOfTheBudgetsGivesTheSameBatches) {
  for (const Budgets& budgets : std::vector<Budgets>{
           {.options = {}},
           {.options = {.disk_limit_bytes = 400'000}, .disk_cache = true},
           {.options = {.disk_cache_bytes = 0}},
           {.options = {.disk_cache_bytes = 300 * 148,
                       .disk_limit_bytes = 750'000},
           .disk_cache = true},
           {.options = {.cpu_cache_bytes = 20 * 148}},
           {.options = kSome, .disk_cache = true},
           {.options = {.cpu_cache_bytes = 20 * 148, .disk_cache_bytes = 0}},
           {.options = {.cpu_cache_bytes = 1 << 20}}}) {
    const auto strategy =
        Make(budgets.options, {.samplers = 2, .extractors = 2});
    ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
    EXPECT_EQ(log_.find(" 0 in the disk cache") == std::string::npos,
              budgets.disk_cache)
        << log_;
    ExpectAllPasses(*strategy);
  }
}

TEST_F(DiskgnnTest, ReportsAddUp) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const PassReport report = Run(*strategy, MakePass(0)).report;
  ASSERT_EQ(report.hits.size(), 1u);
  EXPECT_EQ(report.hits[0].level, "cpu_cache");
  EXPECT_GT(report.hits[0].rows, 0);
  EXPECT_GT(*report.rows_read, 0);
  EXPECT_EQ(report.hits[0].rows + *report.rows_read, report.rows_needed);
  EXPECT_EQ(*report.bytes_read % 4096, 0);
  EXPECT_GE(*report.bytes_read, *report.rows_read * kRowBytes);
  // One read for each graph sample and each pack, and reads of the disk cache.
  EXPECT_GT(*report.read_ops, 2 * report.batches);
  EXPECT_TRUE(report.io_wait_seconds.has_value());
}

TEST_F(DiskgnnTest, AllInMemoryReadsNoRows) {
  const auto strategy = Make(DiskgnnOptions{.cpu_cache_bytes = 1 << 20});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const PassReport report = Run(*strategy, MakePass(0)).report;
  EXPECT_EQ(report.hits[0].rows, report.rows_needed);
  EXPECT_EQ(*report.rows_read, 0);
}

TEST_F(DiskgnnTest, AllPackedReadsEachBatchAtOnce) {
  const auto strategy = Make(DiskgnnOptions{.disk_cache_bytes = 0});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_EQ(*Run(*strategy, MakePass(0)).report.read_ops, 2 * 12);
}

TEST_F(DiskgnnTest, ADiskLimitIsKeptOrRefused) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  uint64_t bytes = 0;
  for (const auto& [name, contents] : Files()) bytes += contents.size();
  EXPECT_LE(bytes, kSome.disk_limit_bytes);
  EXPECT_GT(bytes, kSome.disk_limit_bytes * 3 / 4);
  DiskgnnOptions options = kSome;
  options.disk_limit_bytes = 10'000;
  const absl::Status refused = Prepare(*Make(options));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("10000"));
}

TEST_F(DiskgnnTest, PassesThatWereNotAnnouncedAreRefused) {
  const auto strategy = Make(kSome);
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(0)).status));
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(2)).status));
  Pass other = MakePass(0);
  other.batch_size = 17;
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, other).status));
  EXPECT_TRUE(Run(*strategy, MakePass(1, 7)).status.ok());
}

TEST_F(DiskgnnTest, NoPassesAreAPlanOfNothing) {
  const auto strategy = Make(kSome);
  EXPECT_TRUE(strategy->Prepare({}, {}, {}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(0)).status));
}

TEST_F(DiskgnnTest, ASecondJobFindsThePlan) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("sampled"));
  EXPECT_THAT(log_, HasSubstr("segments of"));
  const std::map<std::string, std::string> files = Files();
  EXPECT_EQ(files.count("samples"), 0u);
  // Other threads and memory need no other plan.
  DiskgnnOptions options = kSome;
  options.io_depth = 1;
  options.prepare_memory_bytes = 64 << 20;
  const auto second = Make(options, {.samplers = 3, .extractors = 3});
  ASSERT_EQ(Prepare(*second), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("reused"));
  EXPECT_THAT(log_, Not(HasSubstr("sampled")));
  EXPECT_TRUE(Files() == files);
  ExpectAllPasses(*second);
}

TEST_F(DiskgnnTest, AWarmStrategyKeepsThePlanOpen) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  strategy->Rest();
  const size_t reads = ReadsSoFar();
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("reused, as it is open"));
  EXPECT_EQ(ReadsSoFar(), reads);
  ExpectAllPasses(*strategy);
  // Other passes need another plan, which replaces the first.
  const std::vector<Pass> others = {MakePass(5)};
  ASSERT_TRUE(strategy->Prepare(others, {}, {}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(0)).status));
  EXPECT_EQ(Run(*strategy, MakePass(5)).batches, Expected(MakePass(5)));
}

TEST_F(DiskgnnTest, WhatAWarmStrategyKeepsOpenGoesWithThePlan) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const std::string name = plans_->List()->front().name;
  EXPECT_TRUE(absl::IsFailedPrecondition(plans_->Remove(name)));
  strategy->Rest();
  EXPECT_EQ(plans_->Remove(name), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(0)).status));
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("sampled"));
  ExpectAllPasses(*strategy);
}

TEST_F(DiskgnnTest, WhatIsMadeAheadIsFoundWhileOtherPassesRun) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const std::vector<Pass> next = {MakePass(5), Passes().back()};
  absl::StatusOr<PreparationReport> ahead;
  {
    const std::jthread other(
        [&] { ahead = strategy->PrepareAhead(next, {}, {}); });
    ExpectAllPasses(*strategy);
  }
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  EXPECT_FALSE(ahead->reused);
  EXPECT_GT(ahead->disk_bytes, 0u);
  // The plan made ahead cannot be removed before it is used.
  EXPECT_TRUE(absl::IsFailedPrecondition(plans_->Remove(ahead->plan)));
  const auto report = strategy->Prepare(next, {}, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->reused);
  EXPECT_EQ(report->plan, ahead->plan);
  EXPECT_EQ(report->reason, ahead->reason);
  EXPECT_EQ(Run(*strategy, MakePass(5)).batches, Expected(MakePass(5)));
  // A second call has nothing to make.
  EXPECT_TRUE(strategy->PrepareAhead(next, {}, {})->reused);
}

TEST_F(DiskgnnTest, WhatIsKnownToBeDamagedIsMadeAnewAhead) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  const plan::PlanRecords records(faulty_, PlanFolder());
  ASSERT_EQ(records.WriteDamage("packs: batch 3"), absl::OkStatus());
  const auto strategy = Make(kSome);
  const auto ahead = strategy->PrepareAhead(Passes(), {}, {});
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  EXPECT_FALSE(ahead->reused);
  EXPECT_TRUE(absl::IsNotFound(records.ReadDamage().status()));
  EXPECT_TRUE(strategy->Prepare(Passes(), {}, {})->reused);
  ExpectAllPasses(*strategy);
}

TEST_F(DiskgnnTest, PlansKeepToTheirSpace) {
  // Space for one plan of at most 400,000 bytes, and for the bytes that
  // sampling reserves at a time.
  const uint64_t space = 1'300'000;
  plans_ = std::make_unique<plan::PlanStore>(
      faulty_, clock_,
      plan::PlanStore::Options{.folder = plans_folder_, .space_bytes = space});
  const auto first = Make(kSome);
  ASSERT_EQ(Prepare(*first), absl::OkStatus());
  EXPECT_GT(*plans_->TotalBytes(), 280'000u);
  // The first plan is in use.
  const auto second = Make(kSome);
  const std::vector<Pass> others = {MakePass(5)};
  const auto refused = second->Prepare(others, {}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(WaitCauseOf(refused.status()), WaitCause::kPlanSpace);
  first->Rest();
  EXPECT_TRUE(second->Prepare(others, {}, {}).ok());
  EXPECT_EQ(plans_->List()->size(), 1u);
  EXPECT_EQ(Run(*second, MakePass(5)).batches, Expected(MakePass(5)));
}

TEST_F(DiskgnnTest, ALayoutWaitsForWhatPlansInUseDoNotLeave) {
  const uint64_t space = 20'000'000;
  plans_ = std::make_unique<plan::PlanStore>(
      faulty_, clock_,
      plan::PlanStore::Options{.folder = plans_folder_, .space_bytes = space});
  std::vector<Pass> passes;
  for (int64_t key = 1; key <= 8; ++key) passes.push_back(MakePass(key));
  // Space for the samples, not for the rows.
  std::optional<plan::PlanLease> other = *plans_->Take("other-f-1", {});
  ASSERT_EQ(other->MakeRoom(space - 1'100'000), absl::OkStatus());
  const auto strategy =
      Make(DiskgnnOptions{.disk_cache_bytes = 0, .io_depth = 4});
  const auto refused = strategy->Prepare(passes, {}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("limited by what the disk and other plans leave"));
  EXPECT_EQ(WaitCauseOf(refused.status()), WaitCause::kPlanSpace);
  EXPECT_FALSE(plans_->HasRoomFor(BytesNeededBy(refused.status())));
  other.reset();
  EXPECT_TRUE(plans_->HasRoomFor(BytesNeededBy(refused.status())));
  EXPECT_TRUE(strategy->Prepare(passes, {}, {}).ok());
}

TEST_F(DiskgnnTest, ALayoutWaitsForADiskThatIsTooFull) {
  for (const uint64_t space : {0, 20'000'000}) {
    plans_ = std::make_unique<plan::PlanStore>(
        faulty_, clock_,
        plan::PlanStore::Options{.folder = absl::StrCat(plans_folder_, space),
                                 .space_bytes = space});
    const auto refused = Make(kSome)->Prepare(
        Passes(),
        {.log = nullptr,
         .progress =
             [&](absl::string_view phase, uint64_t, uint64_t) {
               // Less space is left than the smallest layout needs.
               if (phase == "planning") faulty_.LimitSpace(100'000);
             },
         .durable = nullptr},
        {});
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status()))
        << refused.status();
    EXPECT_EQ(WaitCauseOf(refused.status()), WaitCause::kDiskSpace);
    faulty_.Clear();
  }
}

TEST_F(DiskgnnTest, PreparingTellsHowFarItIs) {
  const auto strategy = Make(kSome);
  std::map<std::string, uint64_t> done;
  std::map<std::string, uint64_t> total;
  const auto report = strategy->Prepare(
      Passes(),
      {.log = nullptr,
       .progress =
           [&](absl::string_view phase, uint64_t now, uint64_t in_all) {
             done[std::string(phase)] = now;
             total[std::string(phase)] = in_all;
           },
       .durable = nullptr},
      {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(done.at("sampling"), total.at("sampling"));
  EXPECT_GT(done.at("sampling"), 24u);
  EXPECT_EQ(done.count("planning"), 1u);
  EXPECT_EQ(report->phases.size(), 3u);
  EXPECT_THAT(report->reason, HasSubstr("segments of"));
  const plan::PlanInfo info = plans_->List()->front();
  EXPECT_EQ(info.name, report->plan);
  EXPECT_EQ(info.state, plan::PlanInfo::State::kWhole);
  EXPECT_LE(info.size_bytes, report->disk_bytes);
}

TEST_F(DiskgnnTest, AWarmStrategyHealsWhatItFoundDamaged) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  Damage("disk_cache");
  absl::Status status;
  for (const Pass& pass : Passes()) status.Update(Run(*strategy, pass).status);
  ASSERT_TRUE(absl::IsDataLoss(status)) << status;
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("made again"));
  ExpectAllPasses(*strategy);
}

TEST_F(DiskgnnTest, EqualPreparationsGiveTheSameBytes) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  const std::map<std::string, std::string> files = Files();
  ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
  ASSERT_EQ(Prepare(*Make(kSome, {.samplers = 4})), absl::OkStatus());
  EXPECT_TRUE(Files() == files);
  for (const TopologyPlace place :
       {TopologyPlace::kMemory, TopologyPlace::kMapped,
        TopologyPlace::kSlabs}) {
    ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
    ASSERT_EQ(Prepare(*Make(kSome, {.topology = place})), absl::OkStatus());
    EXPECT_TRUE(Files() == files);
  }
  EXPECT_THAT(log_, HasSubstr("slab by slab"));
}

TEST_F(DiskgnnTest, JobsAtTheSameTimeMakeItOnce) {
  std::vector<std::string> logs(3);
  std::vector<absl::Status> statuses(3);
  {
    std::vector<std::jthread> jobs;
    for (size_t i = 0; i < logs.size(); ++i) {
      jobs.emplace_back([&, i] {
        const auto strategy = Make(kSome);
        statuses[i] =
            strategy
                ->Prepare(Passes(),
                          {.log = [&](const std::string& l) { logs[i] += l; },
                           .progress = nullptr,
                           .durable = nullptr},
                          {})
                .status();
      });
    }
  }
  int made = 0;
  for (size_t i = 0; i < logs.size(); ++i) {
    EXPECT_EQ(statuses[i], absl::OkStatus());
    if (logs[i].find("sampled") != std::string::npos) ++made;
  }
  EXPECT_EQ(made, 1);
}

TEST_F(DiskgnnTest, WithoutAStoreForPlansTheyAreScratch) {
  plans_.reset();
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  ExpectAllPasses(*strategy);
  const std::vector<Pass> others = {MakePass(5)};
  ASSERT_TRUE(strategy->Prepare(others, {}, {}).ok());
  EXPECT_EQ(io::FileSystem::Posix().List(scratch_.Path("scratch"))->size(), 2u);
  EXPECT_EQ(Run(*strategy, MakePass(5)).batches, Expected(MakePass(5)));
}

TEST_F(DiskgnnTest, DamageThatAPassMeetsIsNamedAndHealedByTheNextJob) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  const std::map<std::string, std::string> whole = Files();
  for (const char* name : {"disk_cache", "packs"}) {
    ASSERT_GT(whole.at(name).size(), 0u);
    Damage(name);
    {
      const auto strategy = Make(kSome);
      ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
      absl::Status status;
      for (const Pass& pass : Passes()) {
        status.Update(Run(*strategy, pass).status);
      }
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
      EXPECT_EQ(plans_->List()->front().state, plan::PlanInfo::State::kDamaged);
    }
    const auto strategy = Make(kSome);
    ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
    EXPECT_THAT(log_, HasSubstr("made again"));
    EXPECT_THAT(log_, HasSubstr(name));
    EXPECT_TRUE(Files() == whole);
    ExpectAllPasses(*strategy);
  }
}

TEST_F(DiskgnnTest, DamageThatShowsAtOnceIsHealedAtOnce) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  const std::map<std::string, std::string> whole = Files();
  for (const char* name : {"index", "cpu_cache", "disk_cache.crc"}) {
    Damage(name);
    const auto strategy = Make(kSome);
    ASSERT_EQ(Prepare(*strategy), absl::OkStatus()) << name;
    EXPECT_THAT(log_, HasSubstr("made again"));
    EXPECT_THAT(log_, HasSubstr(name));
    EXPECT_TRUE(Files() == whole) << name;
  }
}

class DiskgnnTopologyTest
    : public DiskgnnTest,
      public ::testing::WithParamInterface<TopologyPlace> {};

INSTANTIATE_TEST_SUITE_P(Places, DiskgnnTopologyTest,
                         ::testing::Values(TopologyPlace::kMapped,
                                           TopologyPlace::kSlabs));

TEST_P(DiskgnnTopologyTest, APreparationStopsWhereverItIs) {
  const auto strategy = Make(kSome, {.samplers = 2, .topology = GetParam()});
  for (int64_t look = 0;; look += 1 + look / 2) {
    std::stop_source stop;
    clock_.StopAt(look, stop);
    const absl::Status status = Prepare(*strategy, stop.get_token());
    const bool stopped = stop.stop_requested();
    clock_.StopAt(-1, stop);
    if (status.ok()) break;
    EXPECT_TRUE(stopped);
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  }
  ExpectAllPasses(*strategy);
}

TEST_F(DiskgnnTest, APassStopsWhereverItIs) {
  const auto strategy = Make(kSome, {.samplers = 1, .extractors = 2});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  for (int64_t look = 0;; look += 1 + look / 4) {
    std::stop_source stop;
    clock_.StopAt(look, stop);
    const Outcome outcome = Run(*strategy, MakePass(0), stop.get_token());
    clock_.StopAt(-1, stop);
    if (outcome.status.ok()) break;
    EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
  }
  strategy->Rest();
  ExpectAllPasses(*strategy);
}

// After any failure, or a kill, the next preparation makes the same plan; where
// samples were whole, out of them.
TEST_P(DiskgnnTopologyTest, EveryCallOfAPreparationMayFail) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  const std::map<std::string, std::string> whole = Files();
  bool samples_reused = false;
  for (const bool for_good : {false, true}) {
    for (int64_t nth = 1;; nth += 1 + nth / 4) {
      ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
      const auto strategy = Make(kSome, {.topology = GetParam()});
      faulty_.Inject({.nth = nth, .for_good = for_good});
      const absl::Status status = Prepare(*strategy);
      const bool hit = faulty_.hits() > 0;
      faulty_.Clear();
      if (!status.ok()) {
        EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
      }
      if (!hit) break;
      ASSERT_EQ(Prepare(*strategy), absl::OkStatus()) << nth;
      samples_reused |= log_.find("samples of an earlier") != std::string::npos;
      EXPECT_TRUE(Files() == whole) << nth << for_good;
    }
  }
  EXPECT_TRUE(samples_reused);
}

// Failed reads are tried again; a disk that stays broken ends the pass.
TEST_F(DiskgnnTest, EveryReadOfAPassMayFail) {
  const auto strategy = Make(kSome, {.samplers = 1, .extractors = 2});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const std::vector<std::string> expected = Expected(MakePass(0));
  for (const bool for_good : {false, true}) {
    for (int64_t nth = 1;; nth += 1 + nth / 8) {
      faulty_.Inject(
          {.nth = nth, .for_good = for_good, .only = io::Operation::kRead});
      const Outcome outcome = Run(*strategy, MakePass(0));
      const bool hit = faulty_.hits() > 0;
      faulty_.Clear();
      if (!hit) {
        EXPECT_GT(nth, 20);
        break;
      }
      EXPECT_FALSE(for_good && outcome.status.ok());
      if (outcome.status.ok()) {
        EXPECT_EQ(outcome.batches, expected);
        continue;
      }
      EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
      EXPECT_EQ(Run(*strategy, MakePass(0)).batches, expected);
    }
  }
}

TEST_F(DiskgnnTest, DamageOnTheWayIsReadOnceMore) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const std::vector<std::string> expected = Expected(MakePass(0));
  for (const int64_t nth : {1, 2, 3, 10, 20}) {
    faulty_.Inject({.nth = nth,
                    .effect = io::Effect::kCorruptRead,
                    .only = io::Operation::kRead});
    const Outcome outcome = Run(*strategy, MakePass(0));
    faulty_.Clear();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches, expected);
  }
}

TEST_F(DiskgnnTest, AFullDiskEndsThePreparation) {
  bool fits = false;
  for (uint64_t bytes = 100; !fits; bytes += bytes / 3) {
    ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
    const auto strategy = Make(kSome);
    faulty_.LimitSpace(bytes);
    const absl::Status status = Prepare(*strategy);
    faulty_.LimitSpace(uint64_t{1} << 40);
    fits = status.ok();
    if (!fits) {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    }
  }
}

TEST_F(DiskgnnTest, TooLittleMemoryToPrepareIsRefusedWithTheNumbers) {
  DiskgnnOptions options = kSome;
  options.prepare_memory_bytes = 1;
  const absl::Status status = Prepare(*Make(options));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes of memory"));
}

TEST_F(DiskgnnTest, RefusesOptionsOutOfRange) {
  const auto code = [&](const DiskgnnOptions& options,
                        const PipelineOptions& pipeline) {
    return NewStrategy(options, pipeline, Dataset(),
                       {.read_queues = *queues_,
                        .clock = clock_,
                        .scratch_folder = scratch_.Path("scratch")})
        .status()
        .code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(code({.prepare_memory_bytes = 0}, {}), kInvalidArgument);
  EXPECT_EQ(code({.io_depth = 0}, {}), kInvalidArgument);
  EXPECT_EQ(code({.io_depth = 5000}, {}), kInvalidArgument);
  EXPECT_EQ(code({}, {.samplers = 0}), kInvalidArgument);
  EXPECT_EQ(code({}, {.extractors = 0}), kInvalidArgument);
  EXPECT_EQ(code({.gpu_cache_bytes = 1}, {}), kFailedPrecondition);
  EXPECT_EQ(code({}, {}), kOk);
}

}  // namespace
}  // namespace hearth::strategy
