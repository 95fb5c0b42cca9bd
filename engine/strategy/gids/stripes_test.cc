// Features in stripes over several disks: made once, whole or not used, found
// again, and found damaged.

#include "engine/strategy/gids/stripes.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using io::Operation;
using ::testing::HasSubstr;

constexpr uint64_t kMostBytes = 16 << 20;

// A clock that advances whenever it is read, so that measurements of disks are
// short.
class HastyClock final : public Clock {
 public:
  absl::Time Now() const override { return Clock::Real().Now(); }
  double SteadySeconds() const override { return 0.1 * ++looks_; }

 private:
  mutable std::atomic<int> looks_ = 0;
};

// 3,000 rows of 96 bytes: 24 stripes of 128 rows.
std::unique_ptr<store::Dataset> Import(const std::string& folder,
                                       uint64_t seed) {
  const auto path = hearth::testing::ImportPlantedGraph(
      {.num_nodes = 3000, .feature_dim = 24, .seed = seed}, folder);
  EXPECT_TRUE(path.ok()) << path.status();
  return *store::Dataset::Open(io::FileSystem::Posix(), *path);
}

// Tests of a number of disks.
class StripesTest : public ::testing::TestWithParam<int> {
 protected:
  StripesTest() : dataset_(Import(scratch_.Path("dataset"), 7)) {
    train_ = sample::NewShuffledOrder(dataset_->LoadSplit()->train, 3);
    for (int disk = 0; disk < GetParam(); ++disk) {
      stores_.push_back(std::make_unique<plan::PlanStore>(
          files_, Clock::Real(),
          plan::PlanStore::Options{
              .folder = scratch_.Path(absl::StrCat("disk", disk))}));
      disks_.push_back(stores_.back().get());
    }
  }

  int num_disks() const { return GetParam(); }
  int last_disk() const { return GetParam() - 1; }

  // All rows are read, unless a test says otherwise.
  static GidsOptions Options() {
    return {.cpu_cache_bytes = 0,
            .window_cache_bytes = 0,
            .io_depth = 8,
            .striped = true};
  }

  absl::StatusOr<std::unique_ptr<Strategy>> New(const store::Dataset& dataset,
                                                const GidsOptions& options,
                                                bool checks_rows) {
    StrategyResources resources = {.read_queues = *queues_,
                                   .clock = clock_,
                                   .scratch_folder = scratch_.Path("scratch"),
                                   .data_disks = disks_,
                                   .files = files_};
    if (checks_rows) {
      auto checks = dataset.LoadRowChecksums({});
      EXPECT_TRUE(checks.ok()) << checks.status();
      resources.row_check = *std::move(checks);
    }
    return NewStrategy(options, {}, dataset, resources);
  }
  std::unique_ptr<Strategy> New(bool checks_rows = true) {
    return *New(*dataset_, Options(), checks_rows);
  }

  Pass MakePass() const {
    return hearth::testing::Measured(
        *dataset_, {.order = train_.get(),
                    .sampler = {.fanouts = {6, 4}, .data_seed = 3},
                    .batch_size = 100});
  }

  absl::StatusOr<PreparationReport> Prepare(Strategy& strategy,
                                            std::stop_token stop = {}) {
    PreparationListener listener;
    listener.log = [this](const std::string& text) { logged_ += text + "\n"; };
    listener.progress = [this](absl::string_view phase, uint64_t done,
                               uint64_t total) {
      if (phase == "striping") {
        EXPECT_LE(done, total);
      }
      phases_ += absl::StrCat(phase, "\n");
    };
    return strategy.Prepare({MakePass()}, listener, stop);
  }

  absl::Status Run(Strategy& strategy, std::vector<std::string>& batches) {
    PassReport report;
    batches.clear();
    return strategy.Run(
        MakePass(),
        [&](absl::Span<const train::BatchView> shards) {
          batches.push_back(hearth::testing::Fingerprint(shards.front()));
          return absl::OkStatus();
        },
        {}, report);
  }

  void ExpectRightBatches(Strategy& strategy) {
    std::vector<std::string> expected;
    const auto memory = *NewStrategy(MemoryOptions{}, {}, *dataset_,
                                     {.read_queues = *queues_,
                                      .clock = Clock::Real(),
                                      .scratch_folder = scratch_.Path("none")});
    ASSERT_EQ(Run(*memory, expected), absl::OkStatus());
    std::vector<std::string> found;
    ASSERT_EQ(Run(strategy, found), absl::OkStatus());
    EXPECT_EQ(found, expected);
  }

  // The stripes of a disk.
  std::string PathOf(int disk) {
    const store::FeatureStripes stripes(dataset_->manifest(), num_disks());
    return io::JoinPath(
        io::JoinPath(disks_[disk]->options().folder,
                     StripePlanName(dataset_->manifest(), stripes, disk)),
        "features-0");
  }

  // Number of calls that have reached the stripes of a disk.
  int64_t Calls(Operation operation, int disk) {
    int64_t calls = 0;
    for (const io::FaultyFileSystem::Call& call : files_.calls()) {
      calls += call.operation == operation && call.path == PathOf(disk) ? 1 : 0;
    }
    return calls;
  }

  void Damage(int disk) {
    std::string bytes =
        *io::ReadWholeFile(io::FileSystem::Posix(), PathOf(disk), kMostBytes);
    // A bit of every row.
    for (size_t at = 0; at < bytes.size(); at += 96) {
      bytes[at] = static_cast<char>(bytes[at] ^ 4);
    }
    ASSERT_TRUE(
        io::WriteFileAtomically(io::FileSystem::Posix(), PathOf(disk), bytes)
            .ok());
  }

  HastyClock clock_;
  io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::unique_ptr<io::ReadQueues> queues_ =
      *io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads});
  const std::unique_ptr<store::Dataset> dataset_;
  std::unique_ptr<sample::SeedOrder> train_;
  std::vector<std::unique_ptr<plan::PlanStore>> stores_;
  std::vector<plan::PlanStore*> disks_;
  std::string logged_;
  std::string phases_;
};

TEST_P(StripesTest, AreMadeOnceAndGiveTheRowsOfTheDataset) {
  const auto first = New();
  const auto made = Prepare(*first);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->reused);
  EXPECT_THAT(made->plan, HasSubstr("stripe-"));
  ASSERT_FALSE(made->phases.empty());
  EXPECT_EQ(made->phases.front().name, "striping");
  EXPECT_THAT(phases_, HasSubstr("striping"));
  EXPECT_THAT(logged_, HasSubstr("features striped over"));
  ExpectRightBatches(*first);
  uint64_t bytes = 0;
  for (int disk = 0; disk < num_disks(); ++disk) {
    const auto plans = *disks_[disk]->List();
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_EQ(plans[0].state, plan::PlanInfo::State::kWhole);
    EXPECT_EQ(plan::ValueOf(plans[0].properties, "disk"),
              absl::StrCat(disk + 1, " of ", num_disks()));
    bytes += plans[0].size_bytes;
    EXPECT_EQ(Calls(Operation::kCreate, disk), 1);
  }
  EXPECT_LE(bytes, made->disk_bytes);
  const auto second = New();
  const auto found = Prepare(*second);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->reused);
  EXPECT_EQ(found->plan, made->plan);
  EXPECT_EQ(found->disk_bytes, made->disk_bytes);
  EXPECT_EQ(Calls(Operation::kCreate, 0), 1);
  ExpectRightBatches(*second);
}

TEST_P(StripesTest, FillTheConstantBufferToo) {
  const auto strategy = *New(*dataset_, {.io_depth = 4, .striped = true}, true);
  const auto report = Prepare(*strategy);
  ASSERT_TRUE(report.ok()) << report.status();
  // The report names the plan of the scores and has the bytes of scores and
  // stripes.
  EXPECT_THAT(report->plan, HasSubstr("gids-"));
  EXPECT_GT(report->disk_bytes, 3000u * 96);
  ExpectRightBatches(*strategy);
}

TEST_P(StripesTest, AreInUseUntilTheStrategyRests) {
  const auto strategy = New();
  ASSERT_TRUE(Prepare(*strategy).ok());
  const std::string name = disks_[0]->List()->front().name;
  EXPECT_TRUE(absl::IsFailedPrecondition(disks_[0]->Remove(name)));
  strategy->Rest();
  EXPECT_EQ(disks_[0]->Remove(name), absl::OkStatus());
  // A pass after Rest finds the stripes that are left and makes the removed
  // ones.
  ExpectRightBatches(*strategy);
  EXPECT_EQ(Calls(Operation::kCreate, 0), 2);
  for (int disk = 1; disk < num_disks(); ++disk) {
    EXPECT_EQ(Calls(Operation::kCreate, disk), 1);
  }
}

TEST_P(StripesTest, AFaultAtAnyCallLeavesNothingThatIsUsed) {
  for (const Operation operation :
       {Operation::kCreateDirectory, Operation::kCreate, Operation::kAllocate,
        Operation::kWrite, Operation::kSync, Operation::kClose,
        Operation::kRename, Operation::kSyncDirectory,
        Operation::kRemoveTree}) {
    for (const io::Effect effect :
         {io::Effect::kFail, io::Effect::kTearWrite}) {
      if (effect == io::Effect::kTearWrite && operation != Operation::kWrite) {
        continue;
      }
      // Calls repeat themselves, disk by disk: some are skipped.
      for (int64_t nth = 1;; nth += num_disks()) {
        SCOPED_TRACE(absl::StrCat(static_cast<int>(operation), " ", nth));
        files_.Inject({.nth = nth,
                       .for_good = true,
                       .effect = effect,
                       .only = operation});
        const absl::Status status = Prepare(*New()).status();
        const bool hit = files_.hits() > 0;
        files_.Clear();
        if (!hit) {
          EXPECT_TRUE(status.ok()) << status;
        } else {
          EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
        }
        const auto next = New();
        const absl::Status again = Prepare(*next).status();
        ASSERT_TRUE(again.ok()) << again;
        if (nth % 4 == 1) ExpectRightBatches(*next);
        next->Rest();
        for (plan::PlanStore* const disk : disks_) {
          const auto plans = *disk->List();
          for (const plan::PlanInfo& plan : plans) {
            ASSERT_EQ(disk->Remove(plan.name), absl::OkStatus());
          }
        }
        if (!hit) break;
      }
    }
  }
}

TEST_P(StripesTest, DisksWithoutRoomAreNamedBeforeAnythingIsWritten) {
  files_.LimitSpace(20000);
  const absl::Status status = Prepare(*New()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kDiskSpace);
  for (int disk = 0; disk < num_disks(); ++disk) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(disks_[disk]->options().folder,
                                       ": stripes need ")));
    EXPECT_EQ(Calls(Operation::kCreate, disk), 0);
  }
  files_.LimitSpace(uint64_t{1} << 40);
  const auto next = New();
  ASSERT_EQ(Prepare(*next).status(), absl::OkStatus());
  ExpectRightBatches(*next);
}

// As with two folders on one disk: both see the same free space.
TEST_P(StripesTest, ADiskThatFillsUpMeanwhileIsAnErrorAndTheNextJobStartsAnew) {
  for (const Operation operation : {Operation::kAllocate, Operation::kWrite}) {
    files_.Inject({.for_good = true,
                   .status = absl::ResourceExhaustedError("full"),
                   .only = operation,
                   .path_end = PathOf(last_disk())});
    const absl::Status status = Prepare(*New()).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    files_.Clear();
    const plan::PlanInfo left = disks_[last_disk()]->List()->front();
    EXPECT_EQ(left.state, plan::PlanInfo::State::kUnfinished);
    EXPECT_EQ(left.size_bytes, 0u) << "it gave its space back";
    const auto next = New();
    ASSERT_EQ(Prepare(*next).status(), absl::OkStatus());
    ExpectRightBatches(*next);
    next->Rest();
    ASSERT_EQ(
        disks_[last_disk()]->Remove(disks_[last_disk()]->List()->front().name),
        absl::OkStatus());
  }
}

TEST_P(StripesTest, ADamagedRowIsFoundAndItsDiskIsWrittenAnew) {
  ASSERT_EQ(Prepare(*New()).status(), absl::OkStatus());
  Damage(last_disk());
  const auto strategy = New();
  ASSERT_TRUE(Prepare(*strategy)->reused);
  std::vector<std::string> batches;
  const absl::Status status = Run(*strategy, batches);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(PathOf(last_disk()) + ": row "));
  EXPECT_EQ(disks_[last_disk()]->List()->front().state,
            plan::PlanInfo::State::kDamaged);
  ASSERT_FALSE(Prepare(*strategy)->reused);
  EXPECT_THAT(logged_, HasSubstr("are made again"));
  ExpectRightBatches(*strategy);
  EXPECT_EQ(Calls(Operation::kCreate, last_disk()), 2);
  for (int disk = 0; disk < last_disk(); ++disk) {
    EXPECT_EQ(Calls(Operation::kCreate, disk), 1);
  }
}

TEST_P(StripesTest, ARowOfTheConstantBufferIsCheckedToo) {
  ASSERT_EQ(Prepare(*New()).status(), absl::OkStatus());
  Damage(last_disk());
  const auto strategy =
      *New(*dataset_, {.cpu_cache_bytes = kMostBytes, .striped = true}, true);
  const absl::Status status = Prepare(*strategy).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  ASSERT_EQ(Prepare(*strategy).status(), absl::OkStatus());
  ExpectRightBatches(*strategy);
}

TEST_P(StripesTest, WithoutChecksumsOfRowsAllIsVerifiedOnce) {
  const auto first = New(/*checks_rows=*/false);
  ASSERT_EQ(Prepare(*first).status(), absl::OkStatus());
  ExpectRightBatches(*first);
  // Verified before and unchanged.
  const int64_t reads = Calls(Operation::kOpenForRead, 0);
  first->Rest();
  ASSERT_EQ(Prepare(*first).status(), absl::OkStatus());
  EXPECT_EQ(Calls(Operation::kOpenForRead, 0), reads + 1) << "for rows alone";
  first->Rest();
  Damage(last_disk());
  const auto second = New(/*checks_rows=*/false);
  const absl::Status status = Prepare(*second).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(last_disk())));
  ASSERT_EQ(Prepare(*second).status(), absl::OkStatus());
  ExpectRightBatches(*second);
}

TEST_P(StripesTest, AFileThatIsGoneOrCutIsWrittenAnew) {
  ASSERT_EQ(Prepare(*New()).status(), absl::OkStatus());
  ASSERT_EQ(files_.RemoveTree(PathOf(last_disk())), absl::OkStatus());
  const auto strategy = New();
  ASSERT_EQ(Prepare(*strategy).status(), absl::OkStatus());
  ExpectRightBatches(*strategy);
  EXPECT_EQ(Calls(Operation::kCreate, last_disk()), 2);
}

TEST_P(StripesTest, ADiskThatDoesNotAnswerIsNamedAndTheNextPassIsWhole) {
  const auto strategy = New();
  ASSERT_EQ(Prepare(*strategy).status(), absl::OkStatus());
  files_.Inject({.for_good = true,
                 .only = Operation::kRead,
                 .path_end = PathOf(last_disk())});
  std::vector<std::string> batches;
  const absl::Status status = Run(*strategy, batches);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(last_disk())));
  files_.Clear();
  ExpectRightBatches(*strategy);
}

TEST_P(StripesTest, AStopCancelsAndLeavesNothingThatIsUsed) {
  std::stop_source stop;
  stop.request_stop();
  const auto strategy = New();
  const absl::Status status = Prepare(*strategy, stop.get_token()).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  ASSERT_FALSE(Prepare(*strategy)->reused);
  ExpectRightBatches(*strategy);
}

TEST_P(StripesTest, OtherFeaturesHaveOtherStripes) {
  ASSERT_EQ(Prepare(*New()).status(), absl::OkStatus());
  const auto other = Import(scratch_.Path("other"), 8);
  const auto strategy = *New(*other, Options(), true);
  const Pass pass = hearth::testing::Measured(
      *other, {.order = train_.get(),
               .sampler = {.fanouts = {6, 4}, .data_seed = 3},
               .batch_size = 100});
  const auto report = strategy->Prepare({pass}, {}, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->reused);
  EXPECT_EQ(disks_[0]->List()->size(), 2u);
  // Removing the plans of one dataset leaves those of the other.
  const std::string fingerprint = dataset_->manifest().fingerprint;
  ASSERT_EQ(disks_[0]->RemoveOf(fingerprint), absl::OkStatus());
  EXPECT_EQ(disks_[0]->List()->size(), 1u);
}

TEST_P(StripesTest, AreForetold) {
  const auto before = FindStripes(dataset_->manifest(), files_, disks_);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_FALSE(before->exists);
  EXPECT_EQ(before->missing_bytes, before->disk_bytes);
  EXPECT_EQ(before->lacking, "");
  const auto strategy = New();
  const PreparationReport report = *Prepare(*strategy);
  const auto after = FindStripes(dataset_->manifest(), files_, disks_);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(after->exists);
  EXPECT_EQ(after->plan, report.plan);
  EXPECT_EQ(after->disk_bytes, report.disk_bytes);
  EXPECT_EQ(after->missing_bytes, 0u);
  strategy->Rest();
  ASSERT_EQ(disks_[0]->Remove(report.plan), absl::OkStatus());
  files_.LimitSpace(10);
  const auto full = FindStripes(dataset_->manifest(), files_, disks_);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_THAT(full->lacking, HasSubstr(disks_[0]->options().folder));
}

INSTANTIATE_TEST_SUITE_P(Disks, StripesTest, ::testing::Values(1, 2, 3));

TEST(StripesWithoutDisksTest, AreRefused) {
  io::ScratchDirectory scratch;
  const auto dataset = Import(scratch.Path("dataset"), 7);
  const auto queues = *io::ReadQueues::Create();
  const absl::Status status =
      NewStrategy(GidsOptions{.striped = true}, {}, *dataset,
                  {.read_queues = *queues,
                   .clock = Clock::Real(),
                   .scratch_folder = scratch.Path("scratch")})
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("striped: "));
}

}  // namespace
}  // namespace hearth::strategy
