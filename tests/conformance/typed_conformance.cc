#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/assemble.h"
#include "engine/cuda/device.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/whole_file.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/write_partition.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/store/row_codec.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/suites.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using store::NodeId;
using ::testing::HasSubstr;

constexpr int kParts = 12;

// A heterograph, its partition, and its training nodes, shuffled and by parts.
struct Typed {
  std::unique_ptr<store::Dataset> dataset;
  std::shared_ptr<const plan::Partition> partition;
  std::unique_ptr<sample::SeedOrder> shuffled;
  std::unique_ptr<sample::SeedOrder> parted;

  const sample::SeedOrder* order(const ConformanceCase& parameters) const {
    return (parameters.by_parts ? parted : shuffled).get();
  }
};

// Leaked: shared by all tests of the process. In `wide` the rows of authors, of
// half precision, are the widest.
const Typed* mixed = nullptr;
const Typed* wide = nullptr;
io::ReadQueues* queues = nullptr;
// The fake GPU that samples in the running case.
std::optional<cuda::FakeCuda> fake_gpu;

// With rows of `rows`, if given.
std::unique_ptr<const Typed> Import(const hearth::testing::HeteroGraph& graph,
                                    const std::string& name,
                                    std::optional<store::DType> rows = {}) {
  static int number = 0;
  const auto path = hearth::testing::ImportHeteroGraph(
      graph, absl::StrCat(::testing::TempDir(), "typed_", name, ++number));
  EXPECT_TRUE(path.ok()) << path.status();
  auto dataset = *store::Dataset::Open(io::FileSystem::Posix(), *path);
  if (rows.has_value()) {
    dataset =
        hearth::testing::Converted(std::move(dataset), *rows, *path + "_copy");
  }
  const std::vector<NodeId> train = dataset->LoadSplit()->train;
  const std::string folder = *path + "_parts";
  EXPECT_EQ(plan::WritePartition(io::FileSystem::Posix(), *dataset, train,
                                 {.parts = kParts}, {.folder = folder})
                .status(),
            absl::OkStatus());
  auto partition = *plan::Partition::Open(io::FileSystem::Posix(), folder);
  const std::vector<uint16_t> parts = *partition->LoadParts();
  std::vector<uint16_t> train_parts;
  for (const NodeId node : train) train_parts.push_back(parts[node]);
  return std::make_unique<const Typed>(Typed{
      .dataset = std::move(dataset),
      .partition = std::move(partition),
      .shuffled = sample::NewShuffledOrder(train, 3),
      .parted = sample::NewPartitionOrder(train, {.parts = train_parts,
                                                  .parts_per_macro_batch = 3,
                                                  .partition = "typed",
                                                  .data_seed = 3})});
}

Pass MakePass(const ConformanceCase& parameters, const Typed& typed,
              uint64_t epoch_key, int64_t shards = 1) {
  return hearth::testing::Measured(
      *typed.dataset, {.order = typed.order(parameters),
                       .sampler = {.fanouts = {4, 3},
                                   .data_seed = 3,
                                   .fanouts_of = {{}, {-1, 2}, {}, {}}},
                       .batch_size = 50,
                       .shards = shards,
                       .epoch_key = epoch_key});
}

StrategyResources Resources(const Typed& typed, const std::string& name) {
  std::string test =
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(test.begin(), test.end(), '/', '_');
  static cuda::Device gpu;
  if (fake_gpu.has_value()) gpu = fake_gpu->device();
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "typed_scratch_", test, "_", name);
  return {.read_queues = *queues,
          .clock = Clock::Real(),
          .scratch_folder = folder,
          .data_disks = hearth::testing::DataDisks(folder),
          .gpus = absl::MakeConstSpan(&gpu, fake_gpu.has_value() ? 1 : 0),
          .partition = typed.partition};
}

// Prepared for two passes.
std::unique_ptr<Strategy> Make(const ConformanceCase& parameters,
                               const Typed& typed, const std::string& name,
                               int64_t shards = 1) {
  auto strategy = NewStrategy(parameters.strategy, parameters.pipeline,
                              *typed.dataset, Resources(typed, name));
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  const std::vector<Pass> passes = {MakePass(parameters, typed, 0, shards),
                                    MakePass(parameters, typed, 1, shards)};
  EXPECT_EQ((*strategy)->Prepare(passes, {}, {}).status(), absl::OkStatus());
  return *std::move(strategy);
}

// The case of `memory` with the same order of seeds.
ConformanceCase Memory() {
  return {MemoryOptions{}, {}, TypedConformanceTest::GetParam().by_parts};
}

struct Delivered {
  std::vector<std::string> fingerprints;
  PassReport report;
  absl::Status status;
};

Delivered RunPass(Strategy& strategy, const Pass& pass) {
  Delivered delivered;
  delivered.status = strategy.Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        for (const train::BatchView& shard : shards) {
          delivered.fingerprints.push_back(hearth::testing::Fingerprint(shard));
        }
        return absl::OkStatus();
      },
      std::stop_token(), delivered.report);
  return delivered;
}

}  // namespace

void TypedConformanceTest::SetUpTestSuite() {
  mixed = Import({}, "mixed").release();
  wide = Import({.paper_dim = 24, .author_dim = 48, .venue_dim = 24}, "wide")
             .release();
  queues = io::ReadQueues::Create()->release();
}

void TypedConformanceTest::SetUp() {
  if (GetParam().pipeline.sampling_gpu.has_value()) fake_gpu.emplace();
}

// The fake's destructor reports memory that was not freed.
void TypedConformanceTest::TearDown() { fake_gpu.reset(); }

TEST_P(TypedConformanceTest, DeliversTheBatchesOfMemory) {
  for (const Typed* const typed : {mixed, wide}) {
    for (const int64_t shards : {1, 2}) {
      const auto reference = Make(Memory(), *typed, "memory", shards);
      const auto strategy =
          Make(GetParam(), *typed,
               absl::StrCat(typed == mixed ? "mixed" : "wide", shards), shards);
      for (uint64_t key = 0; key < 2; ++key) {
        const Pass pass = MakePass(GetParam(), *typed, key, shards);
        const Delivered expected = RunPass(*reference, pass);
        EXPECT_EQ(expected.fingerprints.size(), 8u * shards);
        const Delivered delivered = RunPass(*strategy, pass);
        EXPECT_EQ(delivered.status, absl::OkStatus());
        EXPECT_EQ(delivered.fingerprints, expected.fingerprints);
        EXPECT_EQ(delivered.report.rows_needed, expected.report.rows_needed);
      }
    }
  }
}

// The rows of authors are the widest.
TEST_P(TypedConformanceTest, DeliversTheBatchesOfMemoryInRowsOfFewerBytes) {
  for (const auto dtype :
       {store::DType::kBFloat16, store::DType::kScaledInt8}) {
    const std::string name(store::RowTypeName(dtype));
    const auto typed = Import({.author_dim = 48}, name, dtype);
    const Pass pass = MakePass(GetParam(), *typed, 1);
    const Delivered expected = RunPass(*Make(Memory(), *typed, "memory"), pass);
    const Delivered delivered = RunPass(*Make(GetParam(), *typed, name), pass);
    EXPECT_EQ(delivered.status, absl::OkStatus());
    EXPECT_EQ(delivered.fingerprints.size(), 8u);
    EXPECT_EQ(delivered.fingerprints, expected.fingerprints);
  }
}

TEST_P(TypedConformanceTest, DeliversTheBatchesOfMemoryDrawnOnce) {
  if (GetParam().pipeline.sampling_gpu.has_value()) {
    GTEST_SKIP() << "a GPU draws anew in each layer";
  }
  Pass pass = MakePass(GetParam(), *mixed, 0, 2);
  pass.sampler.once = true;
  pass = hearth::testing::Measured(*mixed->dataset, pass);
  const Delivered expected =
      RunPass(*Make(Memory(), *mixed, "memory", 2), pass);
  const auto strategy = Make(GetParam(), *mixed, "once", 2);
  EXPECT_EQ(strategy->Prepare({pass}, {}, {}).status(), absl::OkStatus());
  const Delivered delivered = RunPass(*strategy, pass);
  EXPECT_EQ(delivered.status, absl::OkStatus());
  EXPECT_EQ(delivered.fingerprints.size(), 16u);
  EXPECT_EQ(delivered.fingerprints, expected.fingerprints);
  EXPECT_EQ(delivered.report.rows_needed, expected.report.rows_needed);
}

// A row has the columns of its node's type, then zeros; labels belong to the
// seeds, which are papers.
TEST_P(TypedConformanceTest, RowsAndLabelsAreTheDatasets) {
  const auto strategy = Make(GetParam(), *mixed, "rows");
  const store::Dataset& dataset = *mixed->dataset;
  const store::NodeSpace nodes(dataset.manifest());
  std::vector<std::unique_ptr<store::LoadedFeatures>> features;
  for (size_t type = 0; type < nodes.num_types(); ++type) {
    features.push_back(
        *dataset.LoadFeatures(store::Residency::kMemory, {}, type));
  }
  const size_t target = dataset.target_type();
  const store::Labels labels = *dataset.LoadLabels(target);
  std::vector<int64_t> met(nodes.num_types());
  PassReport report;
  Pass pass = MakePass(GetParam(), *mixed, 0);
  pass.rows_in_place = true;
  const absl::Status status = strategy->Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        const train::BatchView& batch = shards.front();
        EXPECT_EQ(batch.feature_dim, 20);
        const std::vector<float> inputs = hearth::testing::InputsOf(batch);
        for (size_t i = 0; i < batch.sample.input_nodes.size(); ++i) {
          const NodeId node = batch.sample.input_nodes[i];
          const store::TypeId type = nodes.TypeOf(node);
          EXPECT_EQ(batch.sample.node_types[i], type);
          ++met[type];
          std::vector<float> row(static_cast<size_t>(batch.feature_dim));
          const NodeId within = node - nodes.First(type);
          cache::AssembleRows(*features[type], {&within, 1}, row.data());
          const float* const actual =
              inputs.data() + static_cast<int64_t>(i) * batch.feature_dim;
          EXPECT_TRUE(std::equal(row.begin(), row.end(), actual)) << node;
        }
        for (int64_t i = 0; i < batch.sample.num_seeds; ++i) {
          const NodeId within =
              batch.sample.input_nodes[i] - nodes.First(target);
          EXPECT_EQ(batch.labels.classes[i],
                    labels.view().classes[static_cast<size_t>(within)]);
        }
        return absl::OkStatus();
      },
      std::stop_token(), report);
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_THAT(met, ::testing::Each(::testing::Gt(100)));
}

TEST_P(TypedConformanceTest, HistoriesAreThoseOfMemory) {
  if (!DeliversInOrder(GetParam().strategy)) {
    GTEST_SKIP() << "delivers batches in any order";
  }
  std::vector<NodeId> kept;
  const int64_t num_nodes =
      store::NodeSpace(mixed->dataset->manifest()).num_nodes();
  for (NodeId node = num_nodes - 1; node >= 0; node -= 2) kept.push_back(node);
  const sample::HistoryPolicy policy = {
      .candidates =
          std::make_shared<sample::HistoryCandidates>(kept, num_nodes),
      .staleness = 3};
  Pass pass = MakePass(GetParam(), *mixed, 0);
  pass.history = &policy;
  const Delivered expected = RunPass(*Make(Memory(), *mixed, "memory"), pass);
  const auto strategy = Make(GetParam(), *mixed, "histories");
  EXPECT_EQ(strategy->Prepare({pass}, {}, {}).status(), absl::OkStatus());
  const Delivered delivered = RunPass(*strategy, pass);
  EXPECT_EQ(delivered.status, absl::OkStatus());
  EXPECT_GT(delivered.report.pulled, 0);
  EXPECT_EQ(delivered.fingerprints, expected.fingerprints);
}

// A flipped bit in a row of any type is found before the row is delivered.
TEST_P(TypedConformanceTest, DamagedRowsOfAnyTypeAreNamed) {
  const std::vector<store::NodeTypeEntry> types =
      mixed->dataset->manifest().node_types;
  for (size_t type = 0; type < types.size(); ++type) {
    const std::unique_ptr<const Typed> damaged =
        Import({}, absl::StrCat("damaged", type));
    const std::string path =
        io::JoinPath(damaged->dataset->path(), types[type].features.path);
    StrategyResources resources = Resources(*damaged, types[type].name);
    if (KindOf(GetParam().strategy).reads_single_rows) {
      resources.row_check = *damaged->dataset->LoadRowChecksums({});
    }
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const uint64_t size = types[type].features.file_size_bytes;
      // Flips bits in every row.
      for (uint64_t at = types[type].features.data_offset; at < size; at += 8) {
        file.seekp(static_cast<std::streamoff>(at));
        file.put('!');
      }
    }
    const auto strategy = NewStrategy(GetParam().strategy, GetParam().pipeline,
                                      *damaged->dataset, resources);
    absl::Status status = strategy.status();
    const std::vector<Pass> passes = {MakePass(GetParam(), *damaged, 0)};
    if (status.ok()) status = (*strategy)->Prepare(passes, {}, {}).status();
    if (status.ok()) status = RunPass(**strategy, passes[0]).status;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(types[type].features.path));
  }
}

// A flipped bit in the neighbors of any edge type is found before a batch is
// delivered.
TEST_P(TypedConformanceTest, DamagedNeighborsOfAnyTypeAreNamed) {
  const std::vector<store::EdgeTypeEntry> types =
      mixed->dataset->manifest().edge_types;
  for (size_t type = 0; type < types.size(); ++type) {
    const std::unique_ptr<const Typed> damaged =
        Import({}, absl::StrCat("edges", type));
    const std::vector<Pass> passes = {MakePass(GetParam(), *damaged, 0)};
    const std::string path =
        io::JoinPath(damaged->dataset->path(), types[type].indices.path);
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(types[type].indices.data_offset));
      file.put('\x7f');
    }
    const auto strategy =
        NewStrategy(GetParam().strategy, GetParam().pipeline, *damaged->dataset,
                    Resources(*damaged, types[type].name));
    absl::Status status = strategy.status();
    if (status.ok()) status = (*strategy)->Prepare(passes, {}, {}).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(types[type].indices.path));
  }
}

}  // namespace hearth::strategy
