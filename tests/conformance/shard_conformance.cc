#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/cache/row_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/sample/shard_window.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/suites.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using store::NodeId;
using ::testing::ElementsAre;

// The contents of a batch, whole or merged from shards, by node.
struct Contents {
  std::vector<NodeId> seeds;
  std::vector<int32_t> classes;
  // Sources of each destination, by layer.
  std::map<std::pair<size_t, NodeId>, std::vector<NodeId>> neighbors;
  // In-degree and input row of each input node.
  std::map<NodeId, std::pair<int64_t, std::vector<float>>> nodes;

  bool operator==(const Contents&) const = default;
};

// Adds `shard`, and expects that it agrees with earlier shards on nodes that
// both have.
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
  const std::vector<float> inputs = hearth::testing::InputsOf(shard);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const float* row =
        inputs.data() + static_cast<int64_t>(i) * shard.feature_dim;
    const std::pair<int64_t, std::vector<float>> node = {
        sample.in_degrees[i], {row, row + shard.feature_dim}};
    const auto [place, added] = contents.nodes.try_emplace(nodes[i], node);
    EXPECT_EQ(place->second, node);
  }
}

struct Delivered {
  // Contents of each batch.
  std::vector<Contents> contents;
  std::vector<std::vector<std::string>> fingerprints;
  std::vector<std::vector<int64_t>> seeds;
  PassReport report;
};

store::Dataset* planted = nullptr;
hearth::testing::PartedPlantedGraph* parted = nullptr;
sample::SeedOrder* shuffled = nullptr;
// The strategy of the running case.
sample::SeedOrder* order = nullptr;
io::ReadQueues* queues = nullptr;

// 360 training nodes in 8 batches, the last one of 10.
Pass MakePass(int64_t shards, int64_t batch_size = 50,
              const sample::NeighborSamplerOptions& sampler = {.fanouts = {5,
                                                                           3},
                                                               .data_seed = 3},
              const sample::ShardWindow& window = {}) {
  return hearth::testing::Measured(*planted, {.order = order,
                                              .sampler = sampler,
                                              .batch_size = batch_size,
                                              .shards = shards,
                                              .epoch_key = 1,
                                              .window = window,
                                              .batches = {}});
}

// Prepared for `passes`.
std::unique_ptr<Strategy> MakeFor(const ConformanceCase& parameters,
                                  absl::Span<const Pass> passes) {
  auto strategy = NewStrategy(
      parameters.strategy, parameters.pipeline, *planted,
      {.read_queues = *queues,
       .clock = Clock::Real(),
       .scratch_folder = ::testing::TempDir() + "shards_scratch",
       .data_disks =
           hearth::testing::DataDisks(::testing::TempDir() + "shards_scratch"),
       .partition = parted->partition});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  const absl::Status status =
      (*strategy)
          ->Prepare(std::vector<Pass>(passes.begin(), passes.end()), {}, {})
          .status();
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(strategy);
}

// Prepared for all passes of two layers that a test may run.
std::unique_ptr<Strategy> Make(const ConformanceCase& parameters) {
  return MakeFor(parameters, {MakePass(1), MakePass(2), MakePass(3),
                              MakePass(1, 359), MakePass(3, 359)});
}

Delivered RunPass(Strategy& strategy, const Pass& pass) {
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

// Memory for input rows, as a consumer provides it. Fails at the call
// `fail_at`, from 0.
class ConsumersPool final : public train::InputPool {
 public:
  explicit ConsumersPool(int64_t fail_at = -1) : fail_at_(fail_at) {}

  absl::StatusOr<std::shared_ptr<train::InputMemory>> Take(
      uint64_t bytes) override {
    if (calls_++ == fail_at_) return absl::AbortedError("no memory is left");
    auto memory = std::make_shared<Memory>(*this);
    HEARTH_RETURN_IF_ERROR(memory->buffer.Resize(bytes));
    return memory;
  }

  int64_t lent() const { return lent_; }

 private:
  struct Memory final : train::InputMemory {
    explicit Memory(ConsumersPool& lender) : pool(lender) { ++pool.lent_; }
    ~Memory() override { --pool.lent_; }
    std::byte* data() override { return buffer.data(); }

    ConsumersPool& pool;
    cache::AlignedBuffer buffer;
  };

  const int64_t fail_at_;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> lent_ = 0;
};

// Rows that a consumer keeps, and a copy of them from when they came.
struct KeptRows {
  std::shared_ptr<train::InputMemory> memory;
  std::vector<float> copy;

  explicit KeptRows(const train::BatchView& shard)
      : memory(shard.input_memory),
        copy(shard.inputs, shard.inputs + std::ssize(shard.sample.input_nodes) *
                                              shard.feature_dim) {}
  bool AreUnchanged() const {
    return std::memcmp(copy.data(), memory->data(),
                       copy.size() * sizeof(float)) == 0;
  }
};

}  // namespace

void ShardConformanceTest::SetUpTestSuite() {
  const auto path =
      hearth::testing::ImportPlantedGraph({}, ::testing::TempDir() + "shards");
  ASSERT_TRUE(path.ok()) << path.status();
  planted = store::Dataset::Open(io::FileSystem::Posix(), *path)->release();
  shuffled = sample::NewShuffledOrder(planted->LoadSplit()->train, 3).release();
  parted = new hearth::testing::PartedPlantedGraph(
      hearth::testing::PartedPlantedGraph::Of(*planted));
  queues = io::ReadQueues::Create()->release();
}

void ShardConformanceTest::SetUp() {
  order = GetParam().by_parts ? parted->order.get() : shuffled;
}

TEST_P(ShardConformanceTest, TogetherAreTheWholeBatch) {
  const auto strategy = Make(GetParam());
  const Delivered whole = RunPass(*Make({MemoryOptions{}, {}}), MakePass(1));
  ASSERT_EQ(whole.contents.size(), 8u);
  for (const int64_t shards : {2, 3}) {
    const Delivered delivered = RunPass(*strategy, MakePass(shards));
    EXPECT_TRUE(delivered.contents == whole.contents) << shards << " shards";
  }
}

TEST_P(ShardConformanceTest, AreThoseOfMemory) {
  const auto strategy = Make(GetParam());
  const auto reference = Make({MemoryOptions{}, {}});
  for (const int64_t shards : {2, 3}) {
    EXPECT_EQ(RunPass(*strategy, MakePass(shards)).fingerprints,
              RunPass(*reference, MakePass(shards)).fingerprints);
  }
}

// With rows in place, too, if the strategy leaves them there.
// Machines that share batches have, together, the shards of one machine. With
// 359 seeds a batch the last one leaves some machines without seeds.
TEST_P(ShardConformanceTest, OfAWindowAreThoseOfTheWholeBatch) {
  for (const int64_t batch_size : {50, 359}) {
    const sample::NeighborSamplerOptions sampler = {.fanouts = {5, 3},
                                                    .data_seed = 3};
    const Pass whole = MakePass(3, batch_size);
    const Delivered all =
        RunPass(*MakeFor({MemoryOptions{}, {}}, {whole}), whole);
    for (const auto& [shards, window] :
         std::vector<std::pair<int64_t, sample::ShardWindow>>{
             {1, {.first = 0, .all = 3}}, {2, {.first = 1, .all = 3}}}) {
      const Pass pass = MakePass(shards, batch_size, sampler, window);
      const Delivered part = RunPass(*MakeFor(GetParam(), {pass}), pass);
      ASSERT_EQ(part.fingerprints.size(), all.fingerprints.size());
      for (size_t batch = 0; batch < part.fingerprints.size(); ++batch) {
        const auto begin = all.fingerprints[batch].begin() + window.first;
        EXPECT_EQ(part.fingerprints[batch],
                  std::vector<std::string>(begin, begin + shards));
      }
    }
  }
}

TEST_P(ShardConformanceTest, AreThoseOfMemoryWithRowsInPlace) {
  const auto strategy = Make(GetParam());
  const auto reference = Make({MemoryOptions{}, {}});
  for (const int64_t shards : {2, 3}) {
    Pass pass = MakePass(shards);
    const Delivered expected = RunPass(*reference, pass);
    pass.rows_in_place = true;
    EXPECT_EQ(RunPass(*strategy, pass).fingerprints, expected.fingerprints);
  }
}

// Shards that meet a node in different layers draw other neighbors of it, so
// that they are not the batch together.
TEST_P(ShardConformanceTest, OfABatchDrawnOnceAreTheSubgraphsOfTheirSeeds) {
  const auto topology =
      *planted->LoadTopology(store::Residency::kMapped, std::stop_token());
  const Pass pass =
      MakePass(3, 50, {.fanouts = {5, 3, 2}, .data_seed = 3, .once = true});
  const auto sampler =
      sample::NewNeighborSampler(topology->view(), pass.sampler);
  const std::vector<NodeId> seeds = order->Epoch(pass.epoch_key);
  // Fingerprints of all shards.
  const auto deliver = [&](const ConformanceCase& parameters) {
    std::vector<std::string> fingerprints;
    PassReport report;
    const absl::Status status =
        MakeFor(parameters, {pass})
            ->Run(
                pass,
                [&](absl::Span<const train::BatchView> shards) {
                  for (const train::BatchView& shard : shards) {
                    const int64_t number = std::ssize(fingerprints);
                    const sample::MiniBatch expected =
                        *sampler->Sample(KeyOfShard(pass, number),
                                         ShardSeeds(pass, seeds, number));
                    EXPECT_EQ(shard.sample.input_nodes, expected.input_nodes);
                    for (size_t i = 0; i < expected.blocks.size(); ++i) {
                      const sample::Block& block = shard.sample.blocks[i];
                      EXPECT_EQ(block.indptr, expected.blocks[i].indptr);
                      EXPECT_EQ(block.indices, expected.blocks[i].indices);
                    }
                    fingerprints.push_back(hearth::testing::Fingerprint(shard));
                  }
                  return absl::OkStatus();
                },
                std::stop_token(), report);
    EXPECT_TRUE(status.ok()) << status;
    return fingerprints;
  };
  const std::vector<std::string> delivered = deliver(GetParam());
  EXPECT_EQ(delivered.size(), 24u);
  EXPECT_EQ(delivered, deliver({MemoryOptions{}, {}}));
}

TEST_P(ShardConformanceTest, AreOfNearlyEqualSize) {
  const auto strategy = Make(GetParam());
  const Delivered delivered = RunPass(*strategy, MakePass(3));
  ASSERT_EQ(delivered.seeds.size(), 8u);
  EXPECT_THAT(delivered.seeds.front(), ElementsAre(16, 17, 17));
  EXPECT_THAT(delivered.seeds.back(), ElementsAre(3, 3, 4));
}

TEST_P(ShardConformanceTest, ABatchWithoutSeedsForAllLeavesSomeEmpty) {
  const auto strategy = Make(GetParam());
  const Delivered whole =
      RunPass(*Make({MemoryOptions{}, {}}), MakePass(1, 359));
  const Delivered delivered = RunPass(*strategy, MakePass(3, 359));
  ASSERT_EQ(delivered.seeds.size(), 2u);
  EXPECT_THAT(delivered.seeds.back(), ElementsAre(0, 0, 1));
  EXPECT_TRUE(delivered.contents == whole.contents);
}

TEST_P(ShardConformanceTest, ReportsCountBatches) {
  const auto strategy = Make(GetParam());
  const Delivered delivered = RunPass(*strategy, MakePass(3));
  EXPECT_EQ(delivered.report.batches, 8);
  for (const auto& stage : delivered.report.stages) {
    EXPECT_EQ(stage.items, 24) << stage.name;
  }
  // A row that several shards need counts for each of them.
  EXPECT_GT(delivered.report.rows_needed,
            RunPass(*strategy, MakePass(1)).report.rows_needed);
}

TEST_P(ShardConformanceTest, ResumeAtABatch) {
  const auto strategy = Make(GetParam());
  const auto whole = RunPass(*strategy, MakePass(3)).fingerprints;
  Pass pass = MakePass(3);
  pass.first_batch = 5;
  EXPECT_EQ(
      RunPass(*strategy, pass).fingerprints,
      (std::vector<std::vector<std::string>>(whole.begin() + 5, whole.end())));
}

// A strategy's buffers serve passes with different numbers of trainers.
TEST_P(ShardConformanceTest, PassesWithAndWithoutFollowEachOther) {
  const auto strategy = Make(GetParam());
  const auto whole = RunPass(*strategy, MakePass(1)).fingerprints;
  RunPass(*strategy, MakePass(3));
  EXPECT_EQ(RunPass(*strategy, MakePass(1)).fingerprints, whole);
}

TEST_P(ShardConformanceTest, RowsCanLieInMemoryOfTheConsumerWhichKeepsIt) {
  const auto strategy = Make(GetParam());
  for (const int64_t shards : {1, 3}) {
    Pass pass = MakePass(shards);
    const auto expected = RunPass(*strategy, pass).fingerprints;
    std::vector<ConsumersPool> pools(static_cast<size_t>(shards));
    for (ConsumersPool& pool : pools) pass.input_pools.push_back(&pool);
    std::vector<KeptRows> kept;
    std::vector<std::vector<std::string>> fingerprints;
    PassReport report;
    const absl::Status status = strategy->Run(
        pass,
        [&](absl::Span<const train::BatchView> batch) -> absl::Status {
          fingerprints.emplace_back();
          for (const train::BatchView& shard : batch) {
            fingerprints.back().push_back(hearth::testing::Fingerprint(shard));
            if (shard.input_memory == nullptr ||
                static_cast<const void*>(shard.inputs) !=
                    shard.input_memory->data()) {
              return absl::InternalError("rows lie elsewhere");
            }
          }
          kept.emplace_back(batch.back());
          return absl::OkStatus();
        },
        std::stop_token(), report);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(fingerprints, expected);
    for (const KeptRows& rows : kept) EXPECT_TRUE(rows.AreUnchanged());
    for (size_t i = 0; i + 1 < pools.size(); ++i) EXPECT_EQ(pools[i].lent(), 0);
    EXPECT_EQ(pools.back().lent(), 8);
    kept.clear();
    EXPECT_EQ(pools.back().lent(), 0);
  }
}

TEST_P(ShardConformanceTest, AnErrorOfTheConsumersMemoryEndsThePass) {
  const auto strategy = Make(GetParam());
  ConsumersPool good;
  ConsumersPool bad(/*fail_at=*/3);
  Pass pass = MakePass(2);
  pass.input_pools = {&good, &bad};
  PassReport report;
  const absl::Status status = strategy->Run(
      pass, [](absl::Span<const train::BatchView>) { return absl::OkStatus(); },
      std::stop_token(), report);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(good.lent() + bad.lent(), 0);
  EXPECT_EQ(RunPass(*strategy, MakePass(2)).contents.size(), 8u);
}

TEST_P(ShardConformanceTest, AnErrorLeavesNoneBehind) {
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
  EXPECT_EQ(RunPass(*strategy, MakePass(2)).contents.size(), 8u);
}

}  // namespace hearth::strategy
