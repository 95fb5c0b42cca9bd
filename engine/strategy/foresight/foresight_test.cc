#include "engine/strategy/foresight/foresight.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/foresight/generation_files.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pass_sequence.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/planning_harness.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A sixth of the rows are in memory.
constexpr ForesightOptions kSome = {.cpu_cache_bytes = 50 * 152, .io_depth = 4};

class ForesightTest : public PlanningHarness {
 protected:
  Pass Validation() const {
    Pass valid = MakePass(1000);
    valid.order = valid_.get();
    valid.evaluates = true;
    return valid;
  }

  // `epochs` epochs, of which `keys` are distinct, each with validation.
  PassSequence Epochs(int epochs, int keys) const {
    PassSequence sequence;
    for (int key = 0; key < keys; ++key) {
      sequence.passes.push_back(MakePass(static_cast<uint64_t>(key)));
    }
    sequence.passes.push_back(Validation());
    for (int epoch = 0; epoch < epochs; ++epoch) {
      sequence.order.push_back(static_cast<size_t>(epoch % keys));
      sequence.order.push_back(static_cast<size_t>(keys));
    }
    return sequence;
  }

  // The forecast for a sequence whose first `keys` passes are training.
  absl::StatusOr<Forecast> Foretell(const ForesightOptions& options,
                                    const PassSequence& sequence, int keys,
                                    int64_t most_batches) {
    const std::string folder = scratch_.Path("forecast");
    EXPECT_TRUE(io::FileSystem::Posix().CreateDirectory(folder).ok());
    const store::Labels labels = *Dataset().LoadLabels();
    const PipelineOptions pipeline = {.samplers = 2};
    const PreparationListener listener;
    return MakeForecast(options,
                        {.dataset = Dataset(),
                         .labels = labels,
                         .files = io::FileSystem::Posix(),
                         .read_queues = *queues_,
                         .clock = clock_,
                         .pipeline = pipeline,
                         .plans = *plans_,
                         .scratch_folder = folder,
                         .listener = listener,
                         .stop = {}},
                        {.passes = sequence.passes,
                         .num_training = static_cast<size_t>(keys),
                         .sequence = &sequence,
                         .time_training = [] { return 0.001; },
                         .most_batches = most_batches});
  }

  // The batches of a pass from memory, each pass computed once.
  const std::vector<std::string>& ExpectedOf(const Pass& pass) {
    std::vector<std::string>& batches = expected_[pass.epoch_key];
    if (batches.empty()) {
      Pass whole = pass;
      whole.first_batch = 0;
      batches = Expected(whole);
    }
    return batches;
  }

  PassReport ExpectPass(Strategy& strategy, const Pass& pass) {
    Outcome outcome = Run(strategy, pass);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    const std::vector<std::string>& whole = ExpectedOf(pass);
    EXPECT_EQ(outcome.batches,
              std::vector<std::string>(whole.begin() + pass.first_batch,
                                       whole.end()));
    return outcome.report;
  }

  // The same with rows in place. Each batch is looked at several times, while
  // later ones are assembled.
  PassReport ExpectInPlace(Strategy& strategy, Pass pass) {
    constexpr int kLooks = 4;
    const std::vector<std::string>& whole = ExpectedOf(pass);
    pass.rows_in_place = true;
    PassReport report;
    auto number = static_cast<size_t>(pass.first_batch);
    const absl::Status status = strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          const train::BatchView& batch = shards.front();
          EXPECT_TRUE(batch.rows.has_value());
          for (int look = 0; look < kLooks; ++look) {
            EXPECT_EQ(hearth::testing::Fingerprint(batch), whole[number]);
          }
          ++number;
          return absl::OkStatus();
        },
        {}, report);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(number, whole.size());
    return report;
  }

  // Runs the passes of a sequence in its order; returns the rows read.
  int64_t ExpectSequence(Strategy& strategy, const PassSequence& sequence) {
    int64_t rows = 0;
    for (const size_t pass : sequence.order) {
      rows += *ExpectPass(strategy, sequence.passes[pass]).rows_read;
    }
    return rows;
  }

  // Contents of the files of all plans, by path, without those with times.
  std::map<std::string, std::string> AllFiles() const {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(plans_folder_)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name == "about.json" ||
          name == "last_use") {
        continue;
      }
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().lexically_relative(plans_folder_)] = {
          std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

  // The folders of the plans of generations.
  std::vector<std::string> Generations() const {
    std::vector<std::string> folders;
    for (const auto& [path, bytes] : AllFiles()) {
      const std::filesystem::path file(path);
      if (file.filename() == kGenerationIndexFile) {
        folders.push_back(file.parent_path());
      }
    }
    return folders;
  }

  // Flips a bit in the middle of every file of this name.
  void DamageAll(const std::string& name) const {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(plans_folder_)) {
      if (entry.path().filename() != name) continue;
      std::fstream file(entry.path(),
                        std::ios::binary | std::ios::in | std::ios::out);
      const auto middle =
          static_cast<std::streamoff>(std::filesystem::file_size(entry) / 2);
      file.seekg(middle);
      const int byte = file.get();
      file.seekp(middle);
      file.put(static_cast<char>(byte ^ 1));
    }
  }

 private:
  std::map<uint64_t, std::vector<std::string>> expected_;
};

TEST_F(ForesightTest, DeliversDistinctEpochsPreparedAhead) {
  const PassSequence sequence = Epochs(7, 7);
  const auto strategy = Make(kSome, {.samplers = 2, .extractors = 2});
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  std::jthread ahead([&] {
    for (;;) {
      const auto report = strategy->PrepareAhead(sequence, {}, {});
      EXPECT_TRUE(report.ok()) << report.status();
      if (!report.ok() || !report->more) return;
    }
  });
  const int64_t rows = ExpectSequence(*strategy, sequence);
  ahead.join();
  EXPECT_GE(Generations().size(), 3u)
      << "half an epoch, two and a half, the rest";
  EXPECT_GT(rows, 0);
  EXPECT_FALSE(strategy->PrepareAhead(sequence, {}, {})->more);
}

TEST_F(ForesightTest, MakesGenerationsOnDemand) {
  const PassSequence sequence = Epochs(4, 4);
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  ExpectSequence(*strategy, sequence);
}

// Only the first one is made ahead; later ones when all shards before are
// delivered.
TEST_F(ForesightTest, GenerationsThatAreMadeApartAreTheSame) {
  ForesightOptions options = kSome;
  options.makes_apart = true;
  for (const int keys : {2, 4}) {
    const PassSequence sequence = Epochs(4, keys);
    const auto apart = Make(options, {.samplers = 2, .extractors = 3});
    ASSERT_EQ(PrepareFor(*apart, sequence), absl::OkStatus());
    const auto ahead = apart->PrepareAhead(sequence, {}, {});
    ASSERT_TRUE(ahead.ok()) << ahead.status();
    EXPECT_FALSE(ahead->more);
    ExpectSequence(*apart, sequence);
    const auto generations = Generations();
    const auto beside = Make(kSome);
    ASSERT_EQ(PrepareFor(*beside, sequence), absl::OkStatus());
    ExpectSequence(*beside, sequence);
    EXPECT_EQ(Generations(), generations);
    // In place, from the middle, and out of turn.
    ExpectInPlace(*apart, sequence.passes[0]);
    Pass later = sequence.passes[1];
    later.first_batch = 7;
    ExpectPass(*apart, later);
    ExpectInPlace(*apart, sequence.passes[0]);
  }
}

TEST_F(ForesightTest, OneGenerationIsMadeApartAndTakesLessMemory) {
  const auto basis = [](int64_t epochs) {
    return MemoryBasis{.manifest = Dataset().manifest(),
                       .pipeline = {},
                       .batches = {},
                       .num_batches = 12,
                       .total_batches = 12 * epochs};
  };
  ForesightOptions options = kSome;
  options.first_epochs = 3;
  EXPECT_FALSE(WithMeasuredForesightBudgets(options, basis(4)).makes_apart);
  const ForesightOptions apart =
      WithMeasuredForesightBudgets(options, basis(3));
  EXPECT_TRUE(apart.makes_apart);
  EXPECT_LT(EstimateForesightMemory(apart, basis(3))->TotalBytes(),
            EstimateForesightMemory(options, basis(3))->TotalBytes());
}

TEST_F(ForesightTest, MoreMemoryReadsFewerRowsAndAllRowsReadEachOnce) {
  const PassSequence sequence = Epochs(4, 4);
  int64_t before = INT64_MAX;
  for (const uint64_t slots : {0, 20, 100, 300}) {
    const auto strategy =
        Make(ForesightOptions{.cpu_cache_bytes = slots * 152});
    ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
    const int64_t rows = ExpectSequence(*strategy, sequence);
    EXPECT_LT(rows, before) << slots;
    before = rows;
  }
  // Rows of the first half epoch fill the cache; others are read when they are
  // needed first.
  EXPECT_LT(before, 300);
}

TEST_F(ForesightTest, RowsInPlaceAreThoseOfMemory) {
  for (const auto& [slots, keys] : std::vector<std::pair<uint64_t, int>>{
           {0, 4}, {20, 4}, {50, 4}, {150, 4}, {300, 4}, {50, 1}, {50, 2}}) {
    const PassSequence sequence = Epochs(4, keys);
    const ForesightOptions options = {.cpu_cache_bytes = slots * 152};
    const auto dense = Make(options);
    ASSERT_EQ(PrepareFor(*dense, sequence), absl::OkStatus());
    const auto in_place = Make(options, {.samplers = 1, .extractors = 3});
    ASSERT_EQ(PrepareFor(*in_place, sequence), absl::OkStatus());
    for (const size_t pass : sequence.order) {
      const PassReport expected = ExpectPass(*dense, sequence.passes[pass]);
      const PassReport report = ExpectInPlace(*in_place, sequence.passes[pass]);
      EXPECT_EQ(report.rows_read, expected.rows_read);
      EXPECT_EQ(report.hits.front().rows, expected.hits.front().rows);
    }
  }
}

TEST_F(ForesightTest, RowsAreInPlaceInSomePassesAndNotInOthers) {
  RandomStream random(6, RandomPurpose::kGenerator);
  const PassSequence sequence = Epochs(4, 4);
  const auto strategy = Make(kSome, {.samplers = 1, .extractors = 2});
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  for (int i = 0; i < 30; ++i) {
    Pass pass = sequence.passes[random.Below(sequence.passes.size())];
    const auto batches = static_cast<uint64_t>(ExpectedOf(pass).size());
    pass.first_batch = static_cast<int64_t>(random.Below(batches + 1));
    if (random.Below(2) == 0) {
      ExpectPass(*strategy, pass);
    } else {
      ExpectInPlace(*strategy, pass);
    }
  }
}

// How long slots have been idle is known of a plan that is found, too.
TEST_F(ForesightTest, WhatIsMadeBehindAFoundPlanIsTheSame) {
  const PassSequence sequence = Epochs(4, 4);
  const auto make_all = [&] {
    const auto strategy = Make(kSome);
    ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
    ExpectSequence(*strategy, sequence);
  };
  make_all();
  const auto files = AllFiles();
  const std::vector<std::string> generations = Generations();
  ASSERT_GE(generations.size(), 3u);
  for (const std::string& generation : generations) {
    ASSERT_TRUE(io::FileSystem::Posix()
                    .RemoveTree(io::JoinPath(plans_folder_, generation))
                    .ok());
    make_all();
    EXPECT_EQ(AllFiles(), files) << generation;
  }
}

TEST_F(ForesightTest, RepeatedEpochsNeedNoFurtherPlans) {
  const auto strategy = Make(kSome);
  const PassSequence sequence = Epochs(8, 2);
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  std::vector<size_t> plans;
  for (const size_t pass : sequence.order) {
    ExpectPass(*strategy, sequence.passes[pass]);
    plans.push_back(plans_->List()->size());
  }
  EXPECT_EQ(plans[4], plans.back());
}

TEST_F(ForesightTest, RepetitionsBeginWithTheRowsOfARefill) {
  const auto strategy = Make(kSome);
  const PassSequence sequence = Epochs(8, 2);
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  for (size_t run = 0; run < sequence.order.size(); ++run) {
    const Pass& pass = sequence.passes[sequence.order[run]];
    const PassReport report = ExpectPass(*strategy, pass);
    const bool repeats = run == 4 || run == 8 || run == 12;
    // A sample and a plan with its pack for each shard.
    EXPECT_EQ(*report.read_ops, 2 * report.batches + (repeats ? 1 : 0)) << run;
  }
}

// A generation that finds no room is smaller, and fills the cache with other
// rows than that of the next repetition, which finds room.
TEST_F(ForesightTest, RepetitionsMayBeginWithOtherRowsThanTheFirst) {
  PassSequence sequence;
  sequence.passes = {Validation(), MakePass(0)};
  sequence.order = {0, 1, 0, 1, 0, 1, 0, 1};
  for (Pass& pass : sequence.passes) pass.batch_size = 4;
  // Validation alone needs fewer rows than the cache holds.
  sequence.passes[0].sampler.fanouts = {1};
  for (const uint64_t slots : {60, 100, 140, 180}) {
    SCOPED_TRACE(slots);
    ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
    const auto strategy = Make(ForesightOptions{
        .cpu_cache_bytes = slots * 152, .first_epochs = 8, .io_depth = 4});
    faulty_.Inject({.for_good = true,
                    .status = absl::ResourceExhaustedError("no room"),
                    .only = io::Operation::kAllocate,
                    .path_end = kShardPacksFile});
    ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
    EXPECT_THAT(log_, HasSubstr("rows are read directly"));
    faulty_.Clear();
    ExpectSequence(*strategy, sequence);
  }
}

TEST_F(ForesightTest, TakesPassesInAnyOrderFromAnyBatch) {
  RandomStream random(5, RandomPurpose::kGenerator);
  const PassSequence sequence = Epochs(4, 4);
  const auto strategy = Make(kSome, {.samplers = 1, .extractors = 2});
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  std::jthread ahead([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto report = strategy->PrepareAhead(sequence, {}, stop);
      if (!report.ok()) {
        EXPECT_TRUE(absl::IsCancelled(report.status())) << report.status();
        return;
      }
    }
  });
  for (int i = 0; i < 30; ++i) {
    Pass pass = sequence.passes[random.Below(sequence.passes.size())];
    const auto batches = std::ssize(ExpectedOf(pass));
    pass.first_batch =
        static_cast<int64_t>(random.Below(static_cast<uint64_t>(batches) + 1));
    ExpectPass(*strategy, pass);
  }
}

TEST_F(ForesightTest, ResumesAtEveryBatch) {
  const PassSequence sequence = Epochs(2, 2);
  for (int64_t batch = 0; batch <= 12; ++batch) {
    const auto strategy = Make(kSome);
    ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
    Pass pass = MakePass(0);
    pass.first_batch = batch;
    ExpectPass(*strategy, pass);
    ExpectPass(*strategy, Validation());
    ExpectPass(*strategy, MakePass(1));
  }
}

TEST_F(ForesightTest, OtherPassesAreRefused) {
  const auto strategy = Make(kSome);
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(0)).status));
  ASSERT_EQ(PrepareFor(*strategy, Epochs(2, 2)), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(2)).status));
  ExpectPass(*strategy, MakePass(1));
  strategy->Rest();
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(*strategy, MakePass(0)).status));
  ASSERT_EQ(PrepareFor(*strategy, Epochs(2, 2)), absl::OkStatus());
  ExpectPass(*strategy, MakePass(0));
  ASSERT_EQ(PrepareFor(*strategy, PassSequence()), absl::OkStatus());
}

TEST_F(ForesightTest, LaterJobsFindThePlansAndThreadsChangeNoByte) {
  const PassSequence sequence = Epochs(3, 3);
  const auto first = Make(kSome);
  ASSERT_EQ(PrepareFor(*first, sequence), absl::OkStatus());
  EXPECT_THAT(log_, Not(HasSubstr("reused")));
  ExpectSequence(*first, sequence);
  const auto files = AllFiles();
  const auto second = Make(kSome, {.samplers = 3, .extractors = 2});
  const auto report = second->Prepare(sequence, Listener(), {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->reused);
  EXPECT_TRUE(report->more);
  ExpectSequence(*second, sequence);
  EXPECT_EQ(AllFiles(), files);
  ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
  const auto third = Make(kSome, {.samplers = 4, .extractors = 3});
  ASSERT_EQ(PrepareFor(*third, sequence), absl::OkStatus());
  ExpectSequence(*third, sequence);
  EXPECT_EQ(AllFiles(), files);
}

// A job that was struck at any batch goes on with the plans that it has, and
// makes those that it would have made.
TEST_F(ForesightTest, AJobThatGoesOnMakesThePlansOfOneThatWasNotStopped) {
  for (const int keys : {8, 2}) {
    PassSequence sequence = Epochs(8, keys);
    ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
    {
      const auto whole = Make(kSome);
      ASSERT_EQ(PrepareFor(*whole, sequence), absl::OkStatus());
      ExpectSequence(*whole, sequence);
    }
    const auto files = AllFiles();
    RandomStream random(7, RandomPurpose::kGenerator);
    for (size_t next = 0; next < sequence.order.size(); ++next) {
      ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
      const auto first = Make(kSome);
      sequence.next = 0;
      ASSERT_EQ(PrepareFor(*first, sequence), absl::OkStatus());
      for (size_t run = 0; run <= next; ++run) {
        ExpectPass(*first, sequence.passes[sequence.order[run]]);
      }
      const auto second = Make(kSome);
      sequence.next = next;
      ASSERT_EQ(PrepareFor(*second, sequence), absl::OkStatus());
      EXPECT_THAT(log_, HasSubstr("reused")) << next;
      for (size_t run = next; run < sequence.order.size(); ++run) {
        Pass pass = sequence.passes[sequence.order[run]];
        const auto batches = std::ssize(ExpectedOf(pass));
        if (run == next) {
          pass.first_batch = static_cast<int64_t>(
              random.Below(static_cast<uint64_t>(batches) + 1));
        }
        ExpectPass(*second, pass);
      }
      EXPECT_EQ(AllFiles(), files) << keys << " keys, pass " << next;
    }
  }
}

TEST_F(ForesightTest, WhereThePlansAreGoneAJobThatGoesOnMakesOthers) {
  PassSequence sequence = Epochs(4, 4);
  sequence.next = 4;
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  EXPECT_THAT(log_, Not(HasSubstr("reused")));
  for (size_t run = sequence.next; run < sequence.order.size(); ++run) {
    ExpectPass(*strategy, sequence.passes[sequence.order[run]]);
  }
  sequence.next = sequence.order.size();
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
}

TEST_F(ForesightTest, WithoutDiskRowsAreReadDirectly) {
  const PassSequence sequence = Epochs(2, 2);
  const auto strategy = Make(
      ForesightOptions{.cpu_cache_bytes = 50 * 152, .disk_limit_bytes = 1});
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  EXPECT_THAT(log_,
              HasSubstr("rows are read directly, not packed: disk limit"));
  const int64_t direct = ExpectSequence(*strategy, sequence);
  for (const auto& [path, bytes] : AllFiles()) {
    EXPECT_FALSE(absl::StrContains(path, kShardPacksFile)) << path;
  }
  const auto packed = Make(kSome);
  ASSERT_EQ(PrepareFor(*packed, sequence), absl::OkStatus());
  EXPECT_EQ(ExpectSequence(*packed, sequence), direct);
}

TEST_F(ForesightTest, ASmallDiskLimitMeansSmallerGenerations) {
  const PassSequence sequence = Epochs(3, 3);
  const auto strategy = Make(ForesightOptions{.cpu_cache_bytes = 50 * 152,
                                              .disk_limit_bytes = 600'000});
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  ExpectSequence(*strategy, sequence);
}

TEST_F(ForesightTest, DamagedPlansAreMadeAgain) {
  const PassSequence sequence = Epochs(2, 2);
  for (const char* name : {kGenerationIndexFile, kSlotsFile, kShardPlansFile,
                           kShardPacksFile, "samples", "samples.index"}) {
    {
      const auto strategy = Make(kSome);
      ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus()) << name;
      ExpectSequence(*strategy, sequence);
    }
    DamageAll(name);
    // The first look that finds damage may be that of a pass, which fails; it
    // delivers nothing of it.
    const auto strategy = Make(kSome);
    int failures = 0;
    for (;;) {
      absl::Status status = PrepareFor(*strategy, sequence);
      for (size_t i = 0; status.ok() && i < sequence.order.size(); ++i) {
        const Pass& pass = sequence.passes[sequence.order[i]];
        const Outcome outcome = Run(*strategy, pass);
        const std::vector<std::string>& whole = ExpectedOf(pass);
        ASSERT_LE(outcome.batches.size(), whole.size());
        EXPECT_TRUE(std::equal(outcome.batches.begin(), outcome.batches.end(),
                               whole.begin()));
        status = outcome.status;
      }
      if (status.ok()) break;
      EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(plans_folder_));
      ASSERT_LT(++failures, 20) << name;
    }
  }
}

TEST_F(ForesightTest, FailuresOfAnyCallAreReturnedAndLeaveNothingBroken) {
  const PassSequence sequence = Epochs(2, 2);
  for (int64_t nth = 1;; nth += 1 + nth / 4) {
    ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
    const auto strategy = Make(kSome);
    faulty_.Inject({.nth = nth});
    absl::Status status = PrepareFor(*strategy, sequence);
    if (status.ok()) status = Run(*strategy, MakePass(0)).status;
    const bool hit = faulty_.hits() > 0;
    faulty_.Clear();
    if (!hit) break;
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDataLoss(status))
          << nth << ": " << status;
    }
    ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus()) << nth;
    ExpectPass(*strategy, MakePass(0));
  }
}

TEST_F(ForesightTest, StopsAtAnyTime) {
  const PassSequence sequence = Epochs(2, 2);
  int stopped = 0;
  for (int64_t look = 0; look < 200; look += 9) {
    const auto strategy = Make(kSome, {.samplers = 2, .extractors = 2});
    std::stop_source stop;
    clock_.StopAt(look, stop);
    absl::Status status = PrepareFor(*strategy, sequence, stop.get_token());
    if (status.ok()) {
      status = Run(*strategy, MakePass(0), stop.get_token()).status;
    }
    stopped += absl::IsCancelled(status);
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
    ExpectPass(*strategy, MakePass(0));
    if (look % 2 == 0) {
      ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
    }
  }
  EXPECT_GT(stopped, 5);
}

TEST_F(ForesightTest, AStopEndsWaitingForUse) {
  const PassSequence sequence = Epochs(6, 6);
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  ASSERT_TRUE(strategy->PrepareAhead(sequence, {}, {}).ok());
  // Two generations are ready: another is of no use yet.
  std::stop_source stop;
  absl::Status status;
  std::jthread ahead([&] {
    status = strategy->PrepareAhead(sequence, {}, stop.get_token()).status();
  });
  stop.request_stop();
  ahead.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(ForesightTest, WhatIsPlannedAheadIsRemovedIfNobodyWantsIt) {
  for (int run = 0; run < 8; ++run) {
    const auto strategy = Make(kSome);
    ASSERT_EQ(PrepareFor(*strategy, Epochs(6, 6)), absl::OkStatus());
    if (run % 2 == 0) strategy->Rest();
  }
  const auto plans = plans_->List();
  ASSERT_TRUE(plans.ok()) << plans.status();
  for (const plan::PlanInfo& plan : *plans) {
    EXPECT_EQ(plan.state, plan::PlanInfo::State::kWhole) << plan.name;
  }
}

TEST_F(ForesightTest, ForecastsAreExactInRowsAndBytes) {
  // In no time at all, which corrects no price.
  const ManualClock clock;
  int packed = 0;
  for (const uint64_t slots : {0, 50, 300}) {
    for (const int keys : {1, 2, 3}) {
      const PassSequence sequence = Epochs(keys == 1 ? 1 : 3, keys);
      const ForesightOptions options = {.cpu_cache_bytes = slots * 152};
      const auto foretell = [&](int64_t most_batches) {
        return Foretell(options, sequence, keys, most_batches);
      };
      // A plan that is found fills the cache in the first epoch.
      ASSERT_TRUE(io::FileSystem::Posix().RemoveTree(plans_folder_).ok());
      const auto forecast = foretell(1000);
      ASSERT_TRUE(forecast.ok()) << forecast.status();
      EXPECT_TRUE(
          io::FileSystem::Posix().List(scratch_.Path("forecast"))->empty());
      const std::unique_ptr<Strategy> strategy =
          *NewStrategy(options, {.samplers = 2}, Dataset(),
                       {.read_queues = *queues_,
                        .clock = clock,
                        .scratch_folder = scratch_.Path("scratch"),
                        .plans = plans_.get()});
      ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
      EXPECT_EQ(foretell(1000)->plan, forecast->plan);
      EXPECT_TRUE(foretell(1000)->plan_exists);
      PassReport sum;
      sum.bytes_read = 0;
      sum.read_ops = 0;
      int64_t hits = 0;
      for (int key = 0; key < keys; ++key) {
        const PassReport pass =
            ExpectPass(*strategy, MakePass(static_cast<uint64_t>(key)));
        ExpectPass(*strategy, Validation());
        sum.rows_needed += pass.rows_needed;
        *sum.bytes_read += *pass.bytes_read;
        *sum.read_ops += *pass.read_ops;
        hits += pass.hits.back().rows;
      }
      const std::string with = absl::StrCat(slots, " slots, ", keys, " keys");
      // Means are rounded.
      if (forecast->bytes_read.has_value()) {
        ++packed;
        EXPECT_NEAR(static_cast<double>(*forecast->bytes_read) * keys,
                    static_cast<double>(*sum.bytes_read), keys)
            << with;
        EXPECT_NEAR(static_cast<double>(*forecast->read_ops) * keys,
                    static_cast<double>(*sum.read_ops), keys)
            << with;
      }
      EXPECT_NEAR(static_cast<double>(forecast->rows_needed) * keys,
                  static_cast<double>(sum.rows_needed), keys)
          << with;
      ASSERT_FALSE(forecast->levels.empty());
      EXPECT_NEAR(static_cast<double>(forecast->levels[0].rows) * keys,
                  static_cast<double>(hits), keys)
          << with;
      // Of few batches only the rows needed can be told.
      EXPECT_FALSE(foretell(3)->bytes_read.has_value());
    }
  }
  EXPECT_GE(packed, 6) << "but for caches of all rows";
}

// The second generation ends within the third pass, which does not count.
TEST_F(ForesightTest, ForecastsAreOfWholePasses) {
  const PassSequence sequence = Epochs(7, 7);
  const auto forecast = Foretell(kSome, sequence, 7, /*most_batches=*/70);
  ASSERT_TRUE(forecast.ok()) << forecast.status();
  EXPECT_EQ(forecast->sampled_batches, 40u) << "three passes and validation";
  EXPECT_LT(forecast->sampled_batches, forecast->total_batches);
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, sequence), absl::OkStatus());
  int64_t needed = 0;
  int64_t hits = 0;
  for (uint64_t key = 0; key < 2; ++key) {
    const PassReport pass = ExpectPass(*strategy, MakePass(key));
    ExpectPass(*strategy, Validation());
    needed += pass.rows_needed;
    hits += pass.hits.back().rows;
  }
  EXPECT_EQ(forecast->rows_needed, static_cast<uint64_t>((needed + 1) / 2));
  ASSERT_FALSE(forecast->levels.empty());
  EXPECT_NEAR(static_cast<double>(forecast->levels[0].rows),
              static_cast<double>(hits) / 2, 1);
}

TEST_F(ForesightTest, BadOptionsAreRefused) {
  const auto make = [&](const ForesightOptions& options) {
    return NewStrategy(options, {}, Dataset(),
                       {.read_queues = *queues_,
                        .clock = clock_,
                        .scratch_folder = scratch_.Path("scratch")})
        .status();
  };
  EXPECT_EQ(make({.io_depth = 0}),
            absl::InvalidArgumentError("io_depth: 0 is not within 1 .. 4096"));
  EXPECT_EQ(make({}), absl::OkStatus());
}

}  // namespace
}  // namespace hearth::strategy
