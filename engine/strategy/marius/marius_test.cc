// Marius where the graph does not fit into the buffer: which batches there are,
// what is in memory meanwhile, what is read, and reads that fail or meet a
// stop. Each test runs with all training nodes kept in memory, and with
// partitions that take turns.

#include "engine/strategy/marius/marius.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/assemble.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_rows.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/marius/buffer_plan.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/hooks.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using ::testing::HasSubstr;

// 600 nodes of about 130 bytes, 360 of them training nodes.
constexpr MariusOptions kRotates = {.partitions = 23,
                                    .partition_buffer_bytes = 40'000};
constexpr MariusOptions kKeepsTraining = {.partitions = 23,
                                          .partition_buffer_bytes = 64'000};

class MariusTest : public ::testing::TestWithParam<MariusOptions> {
 protected:
  static void SetUpTestSuite() {
    const auto path = hearth::testing::ImportPlantedGraph(
        {}, ::testing::TempDir() + "marius");
    ASSERT_TRUE(path.ok()) << path.status();
    path_ = new std::string(*path);
  }

  MariusTest() : faulty_(io::FileSystem::Posix()) {
    dataset_ = *store::Dataset::Open(faulty_, *path_);
    const store::Split split = *dataset_->LoadSplit();
    train_ = sample::NewShuffledOrder(split.train, 3);
    valid_ = sample::NewSequentialOrder(split.valid);
  }

  std::unique_ptr<Strategy> Make(const StrategyOptions& options,
                                 const PipelineOptions& pipeline = {}) {
    auto strategy = NewStrategy(options, pipeline, *dataset_,
                                {.read_queues = *queues_,
                                 .clock = clock_,
                                 .scratch_folder = ::testing::TempDir()});
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  }

  Pass MakePass(uint64_t epoch_key, int64_t first_batch = 0) const {
    return {.order = train_.get(),
            .sampler = {.fanouts = {4, 3}, .data_seed = 3},
            .batch_size = 25,
            .epoch_key = epoch_key,
            .first_batch = first_batch};
  }

  struct Outcome {
    absl::Status status;
    std::vector<std::string> batches;
    PassReport report;
  };

  static Outcome Run(Strategy& strategy, const Pass& pass,
                     std::stop_token stop = {}) {
    Outcome outcome;
    outcome.status = strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          for (const train::BatchView& shard : shards) {
            outcome.batches.push_back(hearth::testing::Fingerprint(shard));
          }
          return absl::OkStatus();
        },
        std::move(stop), outcome.report);
    return outcome;
  }

  PassStates StatesOf(const Pass& pass) const {
    const auto topology =
        *dataset_->LoadTopology({store::Residency::kMemory}, {});
    const int64_t row_bytes =
        store::CommonFormat(dataset_->manifest()).row_bytes();
    const auto partitions = NodePartitions::Make(
        *topology, row_bytes, GetParam().partition_buffer_bytes,
        GetParam().partitions);
    return *PlanStates({.topology = *topology,
                        .partitions = partitions,
                        .row_bytes = row_bytes,
                        .buffer_bytes = GetParam().partition_buffer_bytes,
                        .batch_size = pass.batch_size,
                        .data_seed = pass.sampler.data_seed,
                        .epoch_key = pass.epoch_key},
                       pass.order->Epoch(pass.epoch_key));
  }

  // Whether each node is in memory during the state.
  std::vector<bool> InMemory(const BufferState& state) const {
    const auto topology =
        *dataset_->LoadTopology({store::Residency::kMemory}, {});
    const auto partitions = NodePartitions::Make(
        *topology, store::CommonFormat(dataset_->manifest()).row_bytes(),
        GetParam().partition_buffer_bytes, GetParam().partitions);
    std::vector<bool> inside(
        static_cast<size_t>(topology->nodes().num_nodes()));
    for (const int32_t partition : state.partitions) {
      std::fill_n(inside.begin() + partitions.first(partition),
                  partitions.num_rows(partition), true);
    }
    for (const store::NodeId node : state.kept) inside[node] = true;
    return inside;
  }

  static std::string* path_;
  const std::unique_ptr<io::ReadQueues> queues_ = *io::ReadQueues::Create();
  io::FaultyFileSystem faulty_;
  hearth::testing::StoppingClock clock_;
  std::unique_ptr<store::Dataset> dataset_;
  std::unique_ptr<sample::SeedOrder> train_;
  std::unique_ptr<sample::SeedOrder> valid_;
};

std::string* MariusTest::path_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Buffers, MariusTest,
                         ::testing::Values(kRotates, kKeepsTraining),
                         [](const auto& info) {
                           return info.param == kRotates ? "rotates"
                                                         : "keeps_training";
                         });

TEST_P(MariusTest, AnEpochVisitsEachTrainingNodeOnce) {
  const auto strategy = Make(GetParam());
  for (uint64_t key = 0; key < 3; ++key) {
    const Pass pass = MakePass(key);
    std::multiset<store::NodeId> seeds;
    PassReport report;
    const absl::Status status = strategy->Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          const sample::MiniBatch& batch = shards.front().sample;
          seeds.insert(batch.input_nodes.begin(),
                       batch.input_nodes.begin() + batch.num_seeds);
          return absl::OkStatus();
        },
        {}, report);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<store::NodeId> expected = pass.order->Epoch(key);
    EXPECT_EQ(seeds,
              std::multiset<store::NodeId>(expected.begin(), expected.end()));
    EXPECT_EQ(report.seeds, 360);
    EXPECT_EQ(report.batches, 15);
    EXPECT_EQ(report.hits[0].rows, report.rows_needed);
  }
}

// Neither nodes nor edges of batches are outside, and nodes that have few
// neighbors there have them all.
TEST_P(MariusTest, BatchesAreOfTheGraphInMemory) {
  const Pass pass = MakePass(1);
  const PassStates states = StatesOf(pass);
  const auto topology =
      *dataset_->LoadTopology({store::Residency::kMemory}, {});
  const auto features = *dataset_->LoadFeatures(store::Residency::kMemory);
  const auto all =
      std::get<absl::Span<const int32_t>>(topology->view().indices);
  const auto indptr = topology->view().indptr;
  const auto strategy = Make(GetParam(), {.samplers = 3, .extractors = 2});
  int64_t number = 0;
  PassReport report;
  const absl::Status status = strategy->Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        const train::BatchView& batch = shards.front();
        const auto state = std::find_if(
            states.states.begin(), states.states.end(),
            [&](const BufferState& one) { return number < one.end_batch; });
        const std::vector<bool> inside = InMemory(*state);
        const std::vector<store::NodeId>& nodes = batch.sample.input_nodes;
        for (const store::NodeId node : nodes) EXPECT_TRUE(inside[node]);
        std::vector<float> rows(nodes.size() * features->dim());
        cache::AssembleRows(*features, nodes, rows.data());
        EXPECT_TRUE(std::equal(rows.begin(), rows.end(), batch.inputs));
        for (const sample::Block& block : batch.sample.blocks) {
          const int fanout = &block == &batch.sample.blocks.back() ? 4 : 3;
          for (int64_t row = 0; row < block.num_destinations; ++row) {
            const store::NodeId node = nodes[row];
            int64_t neighbors = 0;
            for (int64_t i = indptr[node]; i < indptr[node + 1]; ++i) {
              neighbors += inside[all[i]] ? 1 : 0;
            }
            EXPECT_EQ(block.indptr[row + 1] - block.indptr[row],
                      std::min<int64_t>(neighbors, fanout));
          }
        }
        ++number;
        return absl::OkStatus();
      },
      {}, report);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(number, 15);
  EXPECT_EQ(states.states.size() > 1, GetParam() == kRotates);
  EXPECT_GT(states.num_slots, 1);
}

TEST_P(MariusTest, ThreadsChangeNothing) {
  const auto one = Make(GetParam(), {.samplers = 1, .extractors = 1});
  const auto many = Make(GetParam(), {.samplers = 4, .extractors = 3});
  for (uint64_t key = 0; key < 3; ++key) {
    const Outcome expected = Run(*one, MakePass(key));
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    EXPECT_EQ(Run(*many, MakePass(key)).batches, expected.batches);
  }
}

TEST_P(MariusTest, PassesResumeAtAnyBatch) {
  const auto strategy = Make(GetParam());
  const Outcome whole = Run(*strategy, MakePass(1));
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (int64_t first = 0; first <= 15; ++first) {
    const std::vector<std::string> rest(whole.batches.begin() + first,
                                        whole.batches.end());
    EXPECT_EQ(Run(*Make(GetParam()), MakePass(1, first)).batches, rest);
    // With what the passes before have left in the buffer.
    EXPECT_EQ(Run(*strategy, MakePass(1, first)).batches, rest);
  }
}

TEST_P(MariusTest, EvaluationIsThatOfMemory) {
  const auto strategy = Make(GetParam());
  const auto memory = Make(MemoryOptions{});
  const Outcome before = Run(*strategy, MakePass(0));
  Pass pass = MakePass(7);
  pass.order = valid_.get();
  pass.evaluates = true;
  for (const int64_t first : {0, 2}) {
    pass.first_batch = first;
    const Outcome expected = Run(*memory, pass);
    ASSERT_FALSE(expected.batches.empty());
    EXPECT_EQ(Run(*strategy, pass).batches, expected.batches);
  }
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, before.batches);
  EXPECT_NE(Run(*memory, MakePass(0)).batches, before.batches);
}

TEST_P(MariusTest, ShardsAreOfTheWholeBatch) {
  const auto strategy = Make(GetParam());
  Pass pass = MakePass(1);
  pass.shards = 2;
  std::vector<store::NodeId> seeds;
  PassReport report;
  const absl::Status status = strategy->Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        EXPECT_EQ(shards.size(), 2u);
        for (const train::BatchView& shard : shards) {
          seeds.insert(
              seeds.end(), shard.sample.input_nodes.begin(),
              shard.sample.input_nodes.begin() + shard.sample.num_seeds);
        }
        return absl::OkStatus();
      },
      {}, report);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(seeds, StatesOf(pass).seeds);
}

TEST_P(MariusTest, ReadsEachPartitionOnce) {
  const Pass pass = MakePass(1);
  const auto strategy = Make(GetParam());
  const auto topology =
      *dataset_->LoadTopology({store::Residency::kMemory}, {});
  const io::RowLayout layout = dataset_->ScanFeatures()->rows;
  const auto partitions = NodePartitions::Make(
      *topology, layout.row_bytes, GetParam().partition_buffer_bytes,
      GetParam().partitions);
  int64_t once = 0;
  for (int32_t i = 0; i < partitions.count(); ++i) {
    const uint64_t begin = layout.RowOffset(partitions.first(i)) / 4096 * 4096;
    const uint64_t end = std::min(
        layout.RowOffset(partitions.first(i) + partitions.num_rows(i)) + 4095,
        layout.RowOffset(layout.num_rows) + 4095);
    once += static_cast<int64_t>(
        std::min(end / 4096 * 4096, layout.RowOffset(layout.num_rows)) - begin);
  }
  const Outcome first = Run(*strategy, pass);
  EXPECT_EQ(first.report.bytes_read, once);
  EXPECT_EQ(first.report.read_ops, partitions.count());
  // Again: what is in memory is not read.
  const Outcome again = Run(*strategy, pass);
  EXPECT_EQ(again.batches, first.batches);
  EXPECT_LT(*again.report.bytes_read, once);
  if (GetParam() == kKeepsTraining) {
    EXPECT_EQ(again.report.bytes_read, 0);
  }
  // Another epoch has other partitions.
  EXPECT_GT(*Run(*strategy, MakePass(2)).report.bytes_read, 0);
}

TEST_P(MariusTest, AFailedReadEndsThePassAndTheNextOneIsWhole) {
  const std::vector<std::string> expected =
      Run(*Make(GetParam()), MakePass(1)).batches;
  int64_t failures = 0;
  for (int64_t nth = 1;; ++nth) {
    const auto strategy = Make(GetParam());
    // Reads that fail are tried again: this one fails for good.
    faulty_.Inject({.nth = nth,
                    .for_good = true,
                    .only = io::Operation::kRead,
                    .path_end = "node.features.npy"});
    const Outcome outcome = Run(*strategy, MakePass(1));
    const bool was_hit = faulty_.hits() > 0;
    faulty_.Clear();
    if (!was_hit) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      break;
    }
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable)
        << outcome.status;
    ++failures;
    EXPECT_EQ(Run(*strategy, MakePass(1)).batches, expected) << nth;
  }
  EXPECT_GE(failures, 23);
}

TEST_P(MariusTest, StopsAnywhereAndTheNextPassIsWhole) {
  const auto strategy = Make(GetParam());
  const std::vector<std::string> expected = Run(*strategy, MakePass(1)).batches;
  std::stop_source never;
  clock_.StopAt(-1, never);
  ASSERT_TRUE(Run(*strategy, MakePass(1)).status.ok());
  const int64_t looks = clock_.looks();
  for (int64_t look = 0; look < looks; look += 1 + looks / 40) {
    std::stop_source stop;
    clock_.StopAt(look, stop);
    // Partitions of another epoch are in memory at first.
    const Outcome outcome = Run(*strategy, MakePass(2), stop.get_token());
    EXPECT_TRUE(outcome.status.ok() || absl::IsCancelled(outcome.status))
        << outcome.status;
    clock_.StopAt(-1, never);
    EXPECT_EQ(Run(*strategy, MakePass(1)).batches, expected) << look;
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      absl::IsCancelled(Run(*strategy, MakePass(2), stop.get_token()).status));
}

TEST_P(MariusTest, AnErrorOfTheConsumerEndsThePass) {
  const auto strategy = Make(GetParam());
  PassReport report;
  int64_t batches = 0;
  const absl::Status status = strategy->Run(
      MakePass(0),
      [&](auto) {
        return ++batches == 9 ? absl::InternalError("enough")
                              : absl::OkStatus();
      },
      {}, report);
  EXPECT_EQ(status, absl::InternalError("enough"));
  EXPECT_EQ(report.batches, 9);
}

TEST_P(MariusTest, ABufferThatChangesTakesNoHistory) {
  const auto strategy = Make(GetParam());
  const sample::HistoryPolicy policy = {
      .candidates = std::make_shared<sample::HistoryCandidates>(
          std::vector<store::NodeId>{1, 2, 3}, 600),
      .staleness = 3};
  Pass pass = MakePass(0);
  pass.history = &policy;
  const absl::Status status = Run(*strategy, pass).status;
  if (GetParam() == kRotates) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("history"));
  } else {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(MariusTest, ABufferWithoutRoomForAPartitionIsRefused) {
  const auto strategy =
      Make(MariusOptions{.partitions = 2, .partition_buffer_bytes = 9'000});
  const absl::Status status = Run(*strategy, MakePass(0)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("partition-buffer: 8.8 KiB do not hold"));
}

// ---- Memory

TEST(EstimateMariusMemoryTest, HoldsTheBufferButNoMoreThanEverything) {
  store::NodeTypeEntry nodes;
  nodes.name = "node";
  nodes.num_nodes = 1000;
  nodes.features.path = "node.features";
  nodes.features.shape = {1000, 100};
  store::Manifest manifest;
  manifest.node_types.push_back(nodes);
  const sample::BatchShape batch = {.nodes = {300, 100, 10},
                                    .edges = {500, 200}};
  const MemoryBasis basis = {
      .manifest = manifest,
      .pipeline = {},
      .batches = {.largest = batch, .likely = batch, .bound = batch}};
  const auto bytes = [&](uint64_t buffer) {
    return EstimateMariusMemory({.partition_buffer_bytes = buffer}, basis)
        ->TotalBytes();
  };
  EXPECT_EQ(AllMariusBytes(basis), 400'000u);
  EXPECT_EQ(bytes(200'000) - bytes(100'000), 100'000u);
  EXPECT_EQ(bytes(kAutoBytes), bytes(400'000));
  const auto sized = [&](uint64_t limit) {
    return std::get<MariusOptions>(
               WithAutoBudgets(MariusOptions{}, manifest, limit))
        .partition_buffer_bytes;
  };
  EXPECT_EQ(sized(1 << 30), 400'000u);
  EXPECT_EQ(sized(500'000), 250'000u);
}

// ---- Several types

TEST(MariusTypesTest, BatchesAreOfTheGraphInMemory) {
  const auto path = hearth::testing::ImportHeteroGraph(
      {}, ::testing::TempDir() + "marius_types");
  ASSERT_TRUE(path.ok()) << path.status();
  const auto dataset = *store::Dataset::Open(io::FileSystem::Posix(), *path);
  const auto features = *dataset->LoadFeatures(store::Residency::kMemory);
  const auto order = sample::NewShuffledOrder(dataset->LoadSplit()->train, 3);
  const auto queues = *io::ReadQueues::Create();
  std::set<store::NodeId> seen;
  for (const uint64_t buffer : {60'000, 110'000}) {
    const auto strategy = *NewStrategy(
        MariusOptions{.partitions = 40, .partition_buffer_bytes = buffer}, {},
        *dataset,
        {.read_queues = *queues,
         .clock = Clock::Real(),
         .scratch_folder = ::testing::TempDir()});
    PassReport report;
    const absl::Status status = strategy->Run(
        {.order = order.get(),
         .sampler = {.fanouts = {4, 3}, .data_seed = 3},
         .batch_size = 25},
        [&](absl::Span<const train::BatchView> shards) {
          const train::BatchView& batch = shards.front();
          const std::vector<store::NodeId>& nodes = batch.sample.input_nodes;
          std::vector<float> rows(nodes.size() * features->dim());
          cache::AssembleRows(*features, nodes, rows.data());
          EXPECT_TRUE(std::equal(rows.begin(), rows.end(), batch.inputs));
          seen.insert(nodes.begin(), nodes.end());
          return absl::OkStatus();
        },
        {}, report);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(report.seeds, 360);
  }
  // Nodes of all types: 300 authors, 600 papers, 40 venues.
  EXPECT_LT(*seen.begin(), 300);
  EXPECT_GE(*seen.rbegin(), 900);
}

}  // namespace
}  // namespace hearth::strategy
