// Batches that several trainers share: in every strategy the shards of a batch
// are, together, the batch as one trainer would get it, and each shard is, bit
// for bit, that of `memory`.

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/batch_fingerprint.h"
#include "tests/fixtures/planted_graph.h"

namespace hearth::strategy {
namespace {

using store::NodeId;
using ::testing::ElementsAre;

struct Case {
  StrategyOptions strategy;
  PipelineOptions pipeline;
};

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return std::to_string(info.index) + "_" + Name(info.param.strategy);
}

// What a batch, whole or in shards, tells of its nodes.
struct Contents {
  std::vector<NodeId> seeds;
  std::vector<int32_t> classes;
  // By layer and destination, the sources.
  std::map<std::pair<size_t, NodeId>, std::vector<NodeId>> neighbors;
  // The in-degree and the input row of each input node.
  std::map<NodeId, std::pair<int64_t, std::vector<float>>> nodes;

  bool operator==(const Contents&) const = default;
};

// Adds `shard`, which must agree with those before it on what both have.
void Add(const train::BatchView& shard, Contents& contents) {
  const sample::MiniBatch& sample = shard.sample;
  const std::vector<NodeId>& nodes = sample.input_nodes;
  contents.seeds.insert(contents.seeds.end(), nodes.begin(),
                        nodes.begin() + sample.num_seeds);
  contents.classes.insert(contents.classes.end(), shard.labels.classes.begin(),
                          shard.labels.classes.end());
  for (size_t layer = 0; layer < sample.blocks.size(); ++layer) {
    const sample::Block& block = sample.blocks[layer];
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      std::vector<NodeId> sources;
      for (int64_t i = block.indptr[row]; i < block.indptr[row + 1]; ++i) {
        sources.push_back(nodes[block.indices[i]]);
      }
      const auto [place, added] =
          contents.neighbors.try_emplace({layer, nodes[row]}, sources);
      EXPECT_EQ(place->second, sources);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const float* row =
        shard.inputs + static_cast<int64_t>(i) * shard.feature_dim;
    const std::pair<int64_t, std::vector<float>> node = {
        sample.in_degrees[i], {row, row + shard.feature_dim}};
    const auto [place, added] = contents.nodes.try_emplace(nodes[i], node);
    EXPECT_EQ(place->second, node);
  }
}

struct Delivered {
  // By batch.
  std::vector<Contents> contents;
  std::vector<std::vector<std::string>> fingerprints;
  std::vector<std::vector<int64_t>> seeds;
  PassReport report;
};

class ShardsTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    const auto path = hearth::testing::ImportPlantedGraph(
        {}, ::testing::TempDir() + "shards");
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = store::Dataset::Open(io::FileSystem::Posix(), *path)->release();
    order_ =
        sample::NewShuffledOrder(dataset_->LoadSplit()->train, 3).release();
    queues_ = io::ReadQueues::Create()->release();
  }

  static std::unique_ptr<Strategy> Make(const Case& parameters) {
    auto strategy = NewStrategy(
        parameters.strategy, parameters.pipeline, *dataset_,
        {.read_queues = *queues_,
         .clock = Clock::Real(),
         .scratch_folder = ::testing::TempDir() + "shards_scratch"});
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    // All that a test may run.
    const std::vector<Pass> passes = {MakePass(1), MakePass(2), MakePass(3),
                                      MakePass(1, 359), MakePass(3, 359)};
    const absl::Status status =
        (*strategy)->Prepare(passes, {}, std::stop_token()).status();
    EXPECT_TRUE(status.ok()) << status;
    return *std::move(strategy);
  }

  // 360 training nodes in 8 batches, the last one of 10.
  static Pass MakePass(int64_t shards, int64_t batch_size = 50) {
    return {.order = order_,
            .sampler = {.fanouts = {5, 3}, .data_seed = 3},
            .batch_size = batch_size,
            .shards = shards,
            .epoch_key = 1};
  }

  static Delivered Run(Strategy& strategy, const Pass& pass) {
    Delivered delivered;
    const absl::Status status = strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          delivered.contents.emplace_back();
          delivered.fingerprints.emplace_back();
          delivered.seeds.emplace_back();
          EXPECT_EQ(static_cast<int64_t>(shards.size()), pass.shards);
          for (const train::BatchView& shard : shards) {
            Add(shard, delivered.contents.back());
            delivered.fingerprints.back().push_back(
                hearth::testing::Fingerprint(shard));
            delivered.seeds.back().push_back(shard.sample.num_seeds);
          }
          return absl::OkStatus();
        },
        std::stop_token(), delivered.report);
    EXPECT_TRUE(status.ok()) << status;
    return delivered;
  }

  static store::Dataset* dataset_;
  static sample::SeedOrder* order_;
  static io::ReadQueues* queues_;
};

store::Dataset* ShardsTest::dataset_ = nullptr;
sample::SeedOrder* ShardsTest::order_ = nullptr;
io::ReadQueues* ShardsTest::queues_ = nullptr;

TEST_P(ShardsTest, TogetherAreTheWholeBatch) {
  const auto strategy = Make(GetParam());
  const Delivered whole = Run(*Make({MemoryOptions{}, {}}), MakePass(1));
  ASSERT_EQ(whole.contents.size(), 8u);
  for (const int64_t shards : {2, 3}) {
    const Delivered delivered = Run(*strategy, MakePass(shards));
    EXPECT_TRUE(delivered.contents == whole.contents) << shards << " shards";
  }
}

TEST_P(ShardsTest, AreThoseOfMemory) {
  const auto strategy = Make(GetParam());
  const auto reference = Make({MemoryOptions{}, {}});
  for (const int64_t shards : {2, 3}) {
    EXPECT_EQ(Run(*strategy, MakePass(shards)).fingerprints,
              Run(*reference, MakePass(shards)).fingerprints);
  }
}

TEST_P(ShardsTest, AreOfNearlyEqualSize) {
  const auto strategy = Make(GetParam());
  const Delivered delivered = Run(*strategy, MakePass(3));
  ASSERT_EQ(delivered.seeds.size(), 8u);
  EXPECT_THAT(delivered.seeds.front(), ElementsAre(16, 17, 17));
  EXPECT_THAT(delivered.seeds.back(), ElementsAre(3, 3, 4));
}

TEST_P(ShardsTest, ABatchWithoutSeedsForAllLeavesSomeEmpty) {
  const auto strategy = Make(GetParam());
  const Delivered whole = Run(*Make({MemoryOptions{}, {}}), MakePass(1, 359));
  const Delivered delivered = Run(*strategy, MakePass(3, 359));
  ASSERT_EQ(delivered.seeds.size(), 2u);
  EXPECT_THAT(delivered.seeds.back(), ElementsAre(0, 0, 1));
  EXPECT_TRUE(delivered.contents == whole.contents);
}

TEST_P(ShardsTest, ReportsCountBatches) {
  const auto strategy = Make(GetParam());
  const Delivered delivered = Run(*strategy, MakePass(3));
  EXPECT_EQ(delivered.report.batches, 8);
  for (const auto& stage : delivered.report.stages) {
    EXPECT_EQ(stage.items, 24) << stage.name;
  }
  // What several shards need counts for each.
  EXPECT_GT(delivered.report.rows_needed,
            Run(*strategy, MakePass(1)).report.rows_needed);
}

TEST_P(ShardsTest, ResumeAtABatch) {
  const auto strategy = Make(GetParam());
  const auto whole = Run(*strategy, MakePass(3)).fingerprints;
  Pass pass = MakePass(3);
  pass.first_batch = 5;
  EXPECT_EQ(
      Run(*strategy, pass).fingerprints,
      (std::vector<std::vector<std::string>>(whole.begin() + 5, whole.end())));
}

// The buffers of a strategy serve passes of several numbers of trainers.
TEST_P(ShardsTest, PassesWithAndWithoutFollowEachOther) {
  const auto strategy = Make(GetParam());
  const auto whole = Run(*strategy, MakePass(1)).fingerprints;
  Run(*strategy, MakePass(3));
  EXPECT_EQ(Run(*strategy, MakePass(1)).fingerprints, whole);
}

TEST_P(ShardsTest, AnErrorLeavesNoneBehind) {
  const auto strategy = Make(GetParam());
  PassReport report;
  int64_t seen = 0;
  const absl::Status status = strategy->Run(
      MakePass(3),
      [&](absl::Span<const train::BatchView>) {
        return ++seen == 3 ? absl::AbortedError("enough") : absl::OkStatus();
      },
      std::stop_token(), report);
  EXPECT_EQ(status, absl::AbortedError("enough"));
  EXPECT_EQ(report.batches, 3);
  EXPECT_EQ(Run(*strategy, MakePass(2)).contents.size(), 8u);
}

// Room for one shard of the largest batch, so that there is one extractor.
constexpr GnndriveOptions kSmallGnndrive = {.staging_bytes = 600 * 20 * 4,
                                            .sample_queue = 1,
                                            .train_queue = 1,
                                            .io_depth = 1};
constexpr GinexOptions kSmallGinex = {
    .cpu_cache_bytes = 600 * 8 + 4000, .superbatch = 3, .io_depth = 2};

constexpr DiskgnnOptions kSmallDiskgnn = {
    .cpu_cache_bytes = 4000, .disk_limit_bytes = 1'500'000, .io_depth = 2};
constexpr DiskgnnOptions kPackedDiskgnn = {.disk_cache_bytes = 0};

INSTANTIATE_TEST_SUITE_P(All, ShardsTest,
                         ::testing::Values(Case{MemoryOptions{}, {}},
                                           Case{MemoryOptions{}, {4, 3}},
                                           Case{MmapOptions{}, {2, 2}},
                                           Case{GnndriveOptions{}, {4, 3}},
                                           Case{kSmallGnndrive, {4, 3}},
                                           Case{GinexOptions{}, {4, 3}},
                                           Case{kSmallGinex, {2, 1}},
                                           Case{kSmallDiskgnn, {4, 3}},
                                           Case{kPackedDiskgnn, {1, 1}}),
                         CaseName);

}  // namespace
}  // namespace hearth::strategy
