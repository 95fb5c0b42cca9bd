#ifndef HEARTH_ENGINE_STRATEGY_GIDS_GIDS_FIXTURE_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_GIDS_FIXTURE_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {

/// Columns of a row of 700 bytes: rows cross sectors, so that batches take
/// several reads.
inline constexpr int64_t kRowBytes = 175 * 4;
inline constexpr int64_t kNodes = 600;

/// Base of tests of gids on a planted graph of 600 nodes, with reads that can
/// be made to fail.
class GidsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Several suites share the dataset.
    if (dataset_ != nullptr) return;
    const auto path = hearth::testing::ImportPlantedGraph(
        {.num_nodes = kNodes, .feature_dim = kRowBytes / 4},
        ::testing::TempDir() + "gids");
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = store::Dataset::Open(io::FileSystem::Posix(), *path)->release();
    const store::Split split = *dataset_->LoadSplit();
    train_ = sample::NewShuffledOrder(split.train, 3).release();
    valid_ = sample::NewSequentialOrder(split.valid).release();
  }

  GidsTest()
      : queues_(*io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads})),
        hooked_(*dataset_),
        folder_(scratch_.Path("plans")),
        plans_(io::FileSystem::Posix(), Clock::Real(), {.folder = folder_}) {}

  absl::StatusOr<std::unique_ptr<Strategy>> New(
      const GidsOptions& options, const PipelineOptions& pipeline = {}) {
    return NewStrategy(options, pipeline, hooked_,
                       {.read_queues = *queues_,
                        .clock = clock_,
                        .scratch_folder = ::testing::TempDir(),
                        .plans = &plans_,
                        .gpu = gpu_});
  }

  std::unique_ptr<Strategy> Make(const GidsOptions& options,
                                 const PipelineOptions& pipeline = {}) {
    auto strategy = New(options, pipeline);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    const absl::Status status = Prepare(**strategy).status();
    EXPECT_TRUE(status.ok()) << status;
    return *std::move(strategy);
  }

  absl::StatusOr<PreparationReport> Prepare(Strategy& strategy) {
    PreparationListener listener;
    listener.log = [this](const std::string& text) { logged_.push_back(text); };
    return strategy.Prepare({hearth::testing::Measured(*dataset_, MakePass(0)),
                             hearth::testing::Measured(*dataset_, MakePass(1))},
                            listener, {});
  }

  static Pass MakePass(uint64_t epoch_key,
                       const sample::SeedOrder* order = train_) {
    return {.order = order,
            .sampler = {.fanouts = {4, 2}, .data_seed = 3},
            .batch_size = 30,
            .epoch_key = epoch_key};
  }

  struct Outcome {
    absl::Status status;
    std::vector<std::string> batches;
    PassReport report;

    int64_t buffered() const { return report.hits[0].rows; }
    int64_t cached() const { return report.hits[1].rows; }
    int64_t read() const { return *report.rows_read; }
  };

  static Outcome Run(Strategy& strategy, const Pass& pass,
                     std::stop_token stop = {}) {
    Outcome outcome;
    outcome.status = strategy.Run(
        hearth::testing::Measured(*dataset_, pass),
        [&](absl::Span<const train::BatchView> shards) {
          outcome.batches.push_back(
              hearth::testing::Fingerprint(shards.front()));
          return absl::OkStatus();
        },
        std::move(stop), outcome.report);
    if (outcome.status.ok() && !outcome.report.hits.empty()) {
      int64_t hits = 0;
      for (const LevelHits& level : outcome.report.hits) hits += level.rows;
      EXPECT_EQ(hits + outcome.report.rows_read.value_or(0),
                outcome.report.rows_needed);
    }
    return outcome;
  }

  static std::vector<std::string> Expected(const Pass& pass) {
    static io::ReadQueues& queues = *io::ReadQueues::Create()->release();
    auto memory = NewStrategy(MemoryOptions{}, {}, *dataset_,
                              {.read_queues = queues,
                               .clock = Clock::Real(),
                               .scratch_folder = ::testing::TempDir()});
    return Run(**memory, pass).batches;
  }

  // Options with caches of these sizes alone.
  static GidsOptions CacheOf(int64_t rows, int64_t window) {
    return {.cpu_cache_bytes = 0,
            .window_cache_bytes = static_cast<uint64_t>(rows * kRowBytes),
            .window = window,
            .io_depth = 8};
  }

  // Writes a file of node ids, as numpy does.
  std::string HotFile(const std::vector<int64_t>& nodes) {
    const std::string path = folder_ + "_hot.npy";
    std::string header =
        absl::StrCat("{'descr': '<i8', 'fortran_order': False, 'shape': (",
                     nodes.size(), ",), }");
    header.resize(117, ' ');
    header += '\n';
    std::ofstream file(path, std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header;
    file.write(reinterpret_cast<const char*>(nodes.data()),
               static_cast<std::streamsize>(nodes.size() * sizeof(int64_t)));
    return path;
  }

  static store::Dataset* dataset_;
  static sample::SeedOrder* train_;
  static sample::SeedOrder* valid_;
  const std::unique_ptr<io::ReadQueues> queues_;
  hearth::testing::HookedDataset hooked_;
  hearth::testing::StoppingClock clock_;
  const io::ScratchDirectory scratch_;
  const std::string folder_;
  plan::PlanStore plans_;
  Gpu gpu_ = {};
  std::vector<std::string> logged_;
};

inline store::Dataset* GidsTest::dataset_ = nullptr;
inline sample::SeedOrder* GidsTest::train_ = nullptr;
inline sample::SeedOrder* GidsTest::valid_ = nullptr;

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_GIDS_FIXTURE_H_
