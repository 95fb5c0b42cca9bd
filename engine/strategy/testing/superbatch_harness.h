#ifndef HEARTH_ENGINE_STRATEGY_TESTING_SUPERBATCH_HARNESS_H_
#define HEARTH_ENGINE_STRATEGY_TESTING_SUPERBATCH_HARNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/plan/partition/partition.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"
#include "tests/fixtures/memory_partition.h"

namespace hearth::strategy {

inline constexpr int64_t kNodes = 300;
/// Bytes of a row: rows share sectors and cross their boundaries.
inline constexpr int64_t kRowBytes = 37 * 4;
/// Bytes of a row so long that reads never include unneeded rows.
inline constexpr int64_t kWideRowBytes = 32 << 10;
inline constexpr uint64_t kTable = kNodes * 8;
/// Bytes that hold every neighbor list: at most 12 neighbors a node.
inline constexpr uint64_t kAllNeighbors = kTable + kNodes * 12 * 4;

/// Parts of a partition.
inline constexpr int64_t kParts = 12;

/// Bytes of a cache of `rows` rows, with its table.
inline uint64_t CacheOf(int64_t rows, int64_t row_bytes = kRowBytes) {
  return kTable + static_cast<uint64_t>(rows * row_bytes);
}

/// The outcome of a pass.
struct Outcome {
  absl::Status status;
  std::vector<std::string> batches;
  std::vector<std::vector<store::NodeId>> nodes;
  PassReport report;
};

/// Base of tests of strategies with superbatches on a planted graph, with files
/// and reads that can be made to fail.
class SuperbatchTest : public ::testing::Test {
 protected:
  explicit SuperbatchTest(int64_t row_bytes = kRowBytes)
      : dataset_(Dataset(row_bytes)) {}

  static const store::Dataset& Dataset(int64_t row_bytes) {
    static auto& datasets =
        *new std::map<int64_t, std::unique_ptr<store::Dataset>>();
    std::unique_ptr<store::Dataset>& dataset = datasets[row_bytes];
    if (dataset == nullptr) {
      const auto path = hearth::testing::ImportPlantedGraph(
          {.num_nodes = kNodes, .feature_dim = row_bytes / 4},
          absl::StrCat(::testing::TempDir(), "superbatch", row_bytes));
      EXPECT_TRUE(path.ok()) << path.status();
      dataset = *store::Dataset::Open(io::FileSystem::Posix(), *path);
    }
    return *dataset;
  }

  absl::StatusOr<std::unique_ptr<Strategy>> New(
      const StrategyOptions& options, const PipelineOptions& pipeline) {
    return NewStrategy(options, pipeline, hooked_,
                       {.read_queues = *queues_,
                        .clock = clock_,
                        .scratch_folder = scratch_.Path("strategy"),
                        .files = faulty_,
                        .partition = partition_});
  }

  std::unique_ptr<Strategy> Make(const StrategyOptions& options,
                                 const PipelineOptions& pipeline = {}) {
    auto strategy = New(options, pipeline);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  }

  // Node n is in part n % kParts.
  std::shared_ptr<hearth::testing::MemoryPartition> MakePartition() const {
    std::vector<uint16_t> parts;
    for (int64_t node = 0; node < kNodes; ++node) {
      parts.push_back(static_cast<uint16_t>(node % kParts));
    }
    const auto topology = *dataset_.LoadTopology(store::Residency::kMemory);
    return std::make_shared<hearth::testing::MemoryPartition>(
        topology->view(), std::move(parts), dataset_.LoadSplit()->train);
  }

  // 12 batches, 180 seeds.
  Pass MakePass(uint64_t epoch_key, int64_t first_batch = 0) const {
    return {.order = train_.get(),
            .sampler = {.fanouts = {3, 2}, .data_seed = 3},
            .batch_size = 16,
            .epoch_key = epoch_key,
            .first_batch = first_batch};
  }

  static Outcome Run(Strategy& strategy, const Pass& pass,
                     std::stop_token stop = {}) {
    Outcome outcome;
    outcome.status = strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          const train::BatchView& batch = shards.front();
          outcome.batches.push_back(hearth::testing::Fingerprint(batch));
          outcome.nodes.push_back(batch.sample.input_nodes);
          return absl::OkStatus();
        },
        std::move(stop), outcome.report);
    EXPECT_EQ(outcome.report.batches,
              static_cast<int64_t>(outcome.batches.size()));
    return outcome;
  }

  // The batches that `memory` delivers.
  Outcome Expected(const Pass& pass) {
    return Run(*Make(MemoryOptions{}), pass);
  }

  // Files left in the scratch folder.
  std::vector<std::string> Leftovers() const {
    return *io::FileSystem::Posix().List(scratch_.Path("strategy"));
  }

  const store::Dataset& dataset_;
  const std::unique_ptr<sample::SeedOrder> train_ =
      sample::NewShuffledOrder(dataset_.LoadSplit()->train, 3);
  const std::unique_ptr<sample::SeedOrder> valid_ =
      sample::NewSequentialOrder(dataset_.LoadSplit()->valid);
  const io::ScratchDirectory scratch_;
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
  const std::unique_ptr<io::ReadQueues> queues_ =
      *io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads});
  hearth::testing::HookedDataset hooked_{dataset_};
  hearth::testing::StoppingClock clock_;
  // The partition of strategies that are made from now on; null: none.
  std::shared_ptr<const plan::Partition> partition_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_TESTING_SUPERBATCH_HARNESS_H_
