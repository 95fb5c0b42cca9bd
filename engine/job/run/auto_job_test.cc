// Jobs whose strategy is chosen.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/data/auto_choice.h"
#include "engine/job/run/explain_job.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/shared_pass.h"
#include "engine/strategy/kinds.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

class AutoJobTest : public JobTest {
 protected:
  TrainJobOptions Auto(const std::string& directory) {
    TrainJobOptions options = Options(directory);
    options.data.automatic.emplace();
    options.data.batch_size = 240;
    options.pipeline.extractors = 2;
    return options;
  }

  // Jobs may take `bytes` in all.
  void Limit(uint64_t bytes) {
    warm_strategies_.reset();
    memory_ = std::make_unique<MemoryLedger>(bytes);
    warm_strategies_ = std::make_unique<WarmStrategies>(
        io::FileSystem::Posix(), *memory_, root_ + "/scratch");
  }

  // A little less than what a job takes with everything in memory.
  void LimitBelowMemory(const hearth::testing::PlantedGraph& graph) {
    Import(graph);
    const auto all = Run(Auto("all"));
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(all->automatic->strategy, "memory");
    digest_ = all->loss_digest;
    uint64_t bytes = 0;
    for (const strategy::MemoryShare& share : all->memory.shares) {
      bytes += share.bytes;
    }
    Limit(bytes - (uint64_t{1} << 20));
    observer_.log.clear();
  }

  std::string digest_;
};

// 19 MB of features, and 9,600 training nodes.
constexpr hearth::testing::PlantedGraph kWide = {.num_nodes = 16000,
                                                 .feature_dim = 300};

TEST_F(AutoJobTest, WhereEverythingFitsItIsMemory) {
  const auto report = Run(Auto("auto"));
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->automatic.has_value());
  EXPECT_EQ(report->automatic->strategy, "memory");
  EXPECT_EQ(report->automatic->candidates.size(), 1u);
  EXPECT_EQ(report->automatic->sampled_batches, 0);
  TrainJobOptions options = Auto("named");
  options.data.automatic.reset();
  const auto named = Run(options);
  EXPECT_FALSE(named->automatic.has_value());
  EXPECT_EQ(report->loss_digest, named->loss_digest);
}

TEST_F(AutoJobTest, WhereItDoesNotTheCheapestIsChosenAndTold) {
  LimitBelowMemory(kWide);
  const auto report = Run(Auto("auto"));
  ASSERT_TRUE(report.ok()) << report.status();
  const AutoChoice& choice = *report->automatic;
  EXPECT_EQ(report->loss_digest, digest_);
  EXPECT_NE(choice.strategy, "memory");
  EXPECT_EQ(choice.candidates.size(), strategy::StrategyKinds().size());
  EXPECT_EQ(choice.strategy, choice.candidates.front().strategy);
  EXPECT_GT(choice.sampled_batches, 0);
  double before = 0;
  for (const AutoCandidate& candidate : choice.candidates) {
    if (candidate.strategy == "memory" || candidate.strategy == "outre") {
      EXPECT_NE(candidate.refusal, "") << candidate.strategy;
    }
    if (!candidate.refusal.empty()) continue;
    EXPECT_GE(candidate.seconds, before);
    EXPECT_LE(candidate.memory_bytes, memory_->most_bytes());
    before = candidate.seconds;
  }
  EXPECT_NE(observer_.log.find("strategy auto chose " + choice.reason + "\n"),
            std::string::npos);
  EXPECT_NE(observer_.log.find("strategy " + choice.strategy + ": 9600"),
            std::string::npos)
      << observer_.log;
}

TEST_F(AutoJobTest, AJobThatGoesOnKeepsItsChoice) {
  LimitBelowMemory(kWide);
  std::stop_source stop;
  observer_.training_batches = 0;
  observer_.act_at = 8;
  observer_.act = [&] { stop.request_stop(); };
  TrainJobOptions options = Auto("auto");
  options.checkpoint_every = 1;
  EXPECT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
  io::FileSystem& files = io::FileSystem::Posix();
  auto kept = ReadAutoChoice(files, options.directory);
  ASSERT_TRUE(kept.ok()) << kept.status();
  // Another strategy than the cheapest.
  for (const AutoCandidate& candidate : kept->candidates) {
    if (!candidate.refusal.empty()) continue;
    kept->strategy = candidate.strategy;
    kept->budgets.cpu_cache_bytes = candidate.cpu_cache_bytes;
    kept->budgets.io_depth = candidate.io_depth;
  }
  EXPECT_NE(kept->strategy, kept->candidates.front().strategy);
  ASSERT_TRUE(WriteAutoChoice(files, options.directory, *kept).ok());
  observer_.act = [] {};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->automatic->strategy, kept->strategy);
  EXPECT_EQ(report->loss_digest, digest_);
}

TEST_F(AutoJobTest, ADamagedChoiceIsMadeAgain) {
  LimitBelowMemory(kWide);
  const TrainJobOptions options = Auto("auto");
  ASSERT_TRUE(Run(options).ok());
  io::FileSystem& files = io::FileSystem::Posix();
  const std::string path = options.directory + "/auto.json";
  std::string text = *io::ReadWholeFile(files, path, 1 << 20);
  text[text.size() / 2] ^= 1;
  ASSERT_TRUE(io::WriteFileAtomically(files, path, text).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(ReadAutoChoice(files, options.directory).status()));
  observer_.log.clear();
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NE(observer_.log.find("auto.json: is damaged"), std::string::npos);
  EXPECT_TRUE(ReadAutoChoice(files, options.directory).ok());
}

TEST_F(AutoJobTest, AChoiceThatNoLongerFitsIsMadeAgain) {
  Import(kWide);
  TrainJobOptions options = Auto("auto");
  ASSERT_EQ(Run(options)->automatic->strategy, "memory");
  AutoChoice memory =
      *ReadAutoChoice(io::FileSystem::Posix(), options.directory);
  LimitBelowMemory(kWide);
  options.directory = root_ + "/other";
  ASSERT_TRUE(io::FileSystem::Posix().CreateDirectory(options.directory).ok());
  ASSERT_TRUE(
      WriteAutoChoice(io::FileSystem::Posix(), options.directory, memory).ok());
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NE(report->automatic->strategy, "memory");
  EXPECT_NE(observer_.log.find("does not fit into memory now"),
            std::string::npos);
  EXPECT_EQ(report->loss_digest, digest_);
}

// Comparing takes memory, too; a job that fits is not refused for it.
TEST_F(AutoJobTest, WhereMemoryIsTooShortToCompareOneThatFitsIsChosen) {
  Import({.num_nodes = 4000, .feature_dim = 300});
  TrainJobOptions options = Auto("whole");
  options.data.batch_size = 60;
  const auto whole = Run(options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // The job takes 29.2 MiB, and a sample of its batches 30.0.
  Limit(30'800'000);
  options.directory = root_ + "/auto";
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->automatic->strategy, "mmap");
  EXPECT_EQ(report->automatic->sampled_batches, 0);
  EXPECT_EQ(report->loss_digest, whole->loss_digest);
  EXPECT_NE(observer_.log.find("strategy auto chose mmap: memory is too short"),
            std::string::npos);
}

TEST_F(AutoJobTest, AHistoryIsThatOfMemory) {
  Import(kWide);
  TrainJobOptions options = Auto("whole");
  options.data.history.emplace();
  const auto whole = Run(options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  uint64_t bytes = 0;
  for (const auto& share : whole->memory.shares) bytes += share.bytes;
  Limit(bytes - (uint64_t{1} << 20));
  options.directory = root_ + "/limited";
  const auto limited = Run(options);
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_NE(limited->automatic->strategy, "memory");
  EXPECT_EQ(*limited->history, *whole->history);
  EXPECT_EQ(limited->loss_digest, whole->loss_digest);
}

TEST_F(AutoJobTest, AnExplanationPricesAllEvenWhereMemoryFits) {
  const JobEnvironment environment = Environment();
  const auto report = RunExplainJob(environment, Auto("auto"), observer_, {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->automatic.has_value());
  EXPECT_EQ(report->automatic->strategy, "memory");
  EXPECT_EQ(report->automatic->candidates.size(),
            strategy::StrategyKinds().size());
}

TEST_F(AutoJobTest, APassThatTakesLongerIsToldOnce) {
  LimitBelowMemory(kWide);
  const TrainJobOptions options = Auto("auto");
  ASSERT_TRUE(Run(options).ok());
  io::FileSystem& files = io::FileSystem::Posix();
  AutoChoice choice = *ReadAutoChoice(files, options.directory);
  for (AutoCandidate& candidate : choice.candidates) {
    candidate.first_epoch_seconds = 1e-3;
    candidate.epoch_seconds = 1e-3;
  }
  const TrainJobOptions again = Auto("again");
  ASSERT_TRUE(files.CreateDirectory(again.directory).ok());
  ASSERT_TRUE(WriteAutoChoice(files, again.directory, choice).ok());
  observer_.warnings.clear();
  observer_.training_batches = 0;
  observer_.act_at = 2;
  observer_.act = [] { absl::SleepFor(absl::Milliseconds(600)); };
  ASSERT_TRUE(Run(again).ok());
  int told = 0;
  for (const std::string& warning : observer_.warnings) {
    told += warning.find("times as long as the 0.0 s that it was chosen for") !=
            std::string::npos;
  }
  EXPECT_EQ(told, 1);
}

// The most memory that rows may take is told: memory keeps all of them.
TEST_F(AutoJobTest, MemoryIsRefusedWhereCpuCacheAllowsLess) {
  Import(kWide);
  const auto all = Run(Auto("all"));
  ASSERT_TRUE(all.ok()) << all.status();
  TrainJobOptions options = Auto("less");
  options.data.automatic->cpu_cache_bytes = uint64_t{1} << 20;
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, all->loss_digest);
  for (const AutoCandidate& candidate : report->automatic->candidates) {
    if (candidate.strategy != "memory") {
      EXPECT_LE(candidate.cpu_cache_bytes, uint64_t{1} << 20)
          << candidate.strategy;
      continue;
    }
    EXPECT_NE(candidate.refusal.find("cpu-cache allows 1.0 MiB"),
              std::string::npos)
        << candidate.refusal;
  }
}

TEST_F(AutoJobTest, ATopologyInSlabsIsForWhatSamplesBeforehand) {
  const auto all = Run(Auto("all"));
  ASSERT_TRUE(all.ok()) << all.status();
  TrainJobOptions options = Auto("slabs");
  options.pipeline.topology = strategy::TopologyPlace::kSlabs;
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, all->loss_digest);
  for (const AutoCandidate& candidate : report->automatic->candidates) {
    const bool beforehand =
        candidate.strategy == "diskgnn" || candidate.strategy == "foresight";
    EXPECT_EQ(candidate.refusal.empty(), beforehand)
        << candidate.strategy << ": " << candidate.refusal;
  }
}

class TakeoverTest : public AutoJobTest {
 protected:
  static constexpr double kPassSeconds = 2;

  // A job whose folder says that it has chosen gnndrive, for a tenth of the
  // time that a pass takes, and that any other strategy would take `others`
  // seconds an epoch.
  TrainJobOptions Chosen(const std::string& directory, double others) {
    TrainJobOptions options = Auto(directory);
    options.name = directory;
    options.sharing_key = "all";
    options.data.epochs = 3;
    AutoChoice choice = {.strategy = "gnndrive",
                         .budgets = {.cpu_cache_bytes = uint64_t{1} << 20}};
    for (const strategy::StrategyKind& kind : strategy::StrategyKinds()) {
      const double seconds =
          kind.name == choice.strategy ? kPassSeconds / 10 : others;
      choice.candidates.push_back({.strategy = std::string(kind.name),
                                   .first_epoch_seconds = seconds,
                                   .epoch_seconds = seconds});
    }
    io::FileSystem& files = io::FileSystem::Posix();
    EXPECT_TRUE(files.CreateDirectory(options.directory).ok());
    EXPECT_TRUE(WriteAutoChoice(files, options.directory, choice).ok());
    return options;
  }

  // The next job's first epoch takes kPassSeconds longer.
  void SlowDown() {
    observer_.act_at = 2;
    observer_.training_batches = 0;
    observer_.act = [] { absl::SleepFor(absl::Seconds(kPassSeconds)); };
  }
};

TEST_F(TakeoverTest, AMuchFasterStrategyGoesOnFromTheEpochsCheckpoint) {
  LimitBelowMemory(kWide);
  shared_passes_ =
      std::make_unique<SharedPassGroups>(SharedPassOptions(), registry_.get());
  TrainJobOptions options = Auto("reference");
  options.data.epochs = 3;
  const auto reference = Run(options);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const TrainJobOptions slow = Chosen("slow", 1e-3);
  SlowDown();
  observer_.log.clear();
  const auto report = Run(slow);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, reference->loss_digest);
  EXPECT_EQ(report->epochs.size(), 3u);
  EXPECT_EQ(report->automatic->before, "gnndrive") << observer_.log;
  EXPECT_NE(report->automatic->strategy, "gnndrive");
  EXPECT_NE(
      observer_.log.find(report->automatic->strategy +
                         " takes over from gnndrive: for the other epochs"),
      std::string::npos)
      << observer_.log;
  const auto kept = ReadAutoChoice(io::FileSystem::Posix(), slow.directory);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->strategy, report->automatic->strategy);
  EXPECT_TRUE(kept->is_final);
  EXPECT_EQ(kept->slow_epoch_seconds, 0);
}

TEST_F(TakeoverTest, NoneIsTriedThatPromisesLittle) {
  LimitBelowMemory(kWide);
  shared_passes_ =
      std::make_unique<SharedPassGroups>(SharedPassOptions(), registry_.get());
  const TrainJobOptions slow = Chosen("slow", 1000);
  SlowDown();
  const auto report = Run(slow);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->automatic->strategy, "gnndrive");
  EXPECT_EQ(report->automatic->before, "");
  EXPECT_NE(observer_.log.find("times as long as"), std::string::npos);
}

// A first epoch that was to take long says little of the time of later ones.
TEST_F(TakeoverTest, LaterEpochsAreTakenToBeAsMuchSlowerNotAsLong) {
  LimitBelowMemory(kWide);
  shared_passes_ =
      std::make_unique<SharedPassGroups>(SharedPassOptions(), registry_.get());
  const TrainJobOptions slow = Chosen("slow", kPassSeconds / 4);
  io::FileSystem& files = io::FileSystem::Posix();
  AutoChoice choice = *ReadAutoChoice(files, slow.directory);
  for (AutoCandidate& candidate : choice.candidates) {
    if (candidate.strategy != choice.strategy) continue;
    candidate.first_epoch_seconds = kPassSeconds / 2;
    candidate.epoch_seconds = kPassSeconds / 10;
  }
  ASSERT_EQ(WriteAutoChoice(files, slow.directory, choice), absl::OkStatus());
  SlowDown();
  const auto report = Run(slow);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NE(observer_.log.find("times as long as"), std::string::npos);
  EXPECT_EQ(report->automatic->strategy, "gnndrive") << observer_.log;
  EXPECT_EQ(report->automatic->before, "") << observer_.log;
}

TEST_F(TakeoverTest, AJobStaysWhereItsChoiceCannotBeKept) {
  LimitBelowMemory(kWide);
  shared_passes_ =
      std::make_unique<SharedPassGroups>(SharedPassOptions(), registry_.get());
  const TrainJobOptions slow = Chosen("slow", 1e-3);
  SlowDown();
  observer_.act = [slow_down = observer_.act, &slow] {
    slow_down();
    // Nothing can take the place of a folder that is not empty.
    const std::string path = slow.directory + "/auto.json";
    std::filesystem::remove(path);
    std::filesystem::create_directories(path + "/in_the_way");
  };
  const auto report = Run(slow);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->epochs.size(), 3u);
  EXPECT_EQ(report->automatic->strategy, "gnndrive");
  EXPECT_NE(observer_.log.find("strategy auto stays with gnndrive: "),
            std::string::npos)
      << observer_.log;
}

TEST_F(AutoJobTest, AChoiceThatNoLongerFitsStaysFinal) {
  LimitBelowMemory(kWide);
  TrainJobOptions options = Auto("final");
  io::FileSystem& files = io::FileSystem::Posix();
  ASSERT_EQ(files.CreateDirectory(options.directory), absl::OkStatus());
  // All rows in memory do not fit.
  const AutoChoice before = {.strategy = "memory", .is_final = true};
  ASSERT_EQ(WriteAutoChoice(files, options.directory, before),
            absl::OkStatus());
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NE(report->automatic->strategy, "memory");
  EXPECT_TRUE(report->automatic->is_final);
}

TEST(PromisesMoreTest, CountsPreparationsAndIsAskedOnce) {
  AutoChoice choice = {.strategy = "gnndrive"};
  choice.candidates = {
      {.strategy = "gnndrive", .epoch_seconds = 1},
      {.strategy = "mmap", .refusal = "does not fit"},
      {.strategy = "diskgnn", .prepare_seconds = 10, .epoch_seconds = 1}};
  EXPECT_TRUE(PromisesMore(choice, /*epoch_seconds=*/5, /*epochs=*/4));
  EXPECT_FALSE(PromisesMore(choice, 5, 3));
  EXPECT_FALSE(PromisesMore(choice, 1, 1000));
  choice.is_final = true;
  EXPECT_FALSE(PromisesMore(choice, 5, 4));
}

TEST(RankCandidatesTest, NamesTheCheapestAndTheNext) {
  std::vector<AutoCandidate> candidates = {
      {.strategy = "memory", .refusal = "does not fit"},
      {.strategy = "gnndrive", .seconds = 60},
      {.strategy = "diskgnn", .seconds = 41.2, .prepare_seconds = 15},
      {.strategy = "ginex", .seconds = 44},
      {.strategy = "outre", .refusal = "needs order partition"},
      {.strategy = "mmap", .seconds = 500},
      {.strategy = "gids", .seconds = 61}};
  EXPECT_EQ(RankCandidates(candidates),
            "diskgnn: 41 s in all, of which 15 s preparing; ginex 44 s; "
            "gnndrive 60 s; gids 61 s; memory does not fit");
  EXPECT_EQ(candidates.front().strategy, "diskgnn");
  EXPECT_EQ(candidates.back().strategy, "outre");
}

}  // namespace
}  // namespace hearth::job
