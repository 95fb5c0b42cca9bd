#include "engine/strategy/kinds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/manifest.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::ElementsAre;

TEST(StrategyTest, OnlyReorderingChangesTheOrder) {
  EXPECT_TRUE(DeliversInOrder(MemoryOptions{}));
  EXPECT_TRUE(DeliversInOrder(GinexOptions{}));
  EXPECT_TRUE(DeliversInOrder(DiskgnnOptions{}));
  EXPECT_TRUE(DeliversInOrder(OutreOptions{}));
  EXPECT_TRUE(DeliversInOrder(GnndriveOptions{}));
  EXPECT_FALSE(DeliversInOrder(GnndriveOptions{.reorder = true}));
}

TEST(StrategyTest, MariusAndReorderingAreNotExact) {
  EXPECT_TRUE(IsExact(MemoryOptions{}));
  EXPECT_FALSE(IsExact(GnndriveOptions{.reorder = true}));
  EXPECT_FALSE(IsExact(MariusOptions{}));
  EXPECT_TRUE(DeliversInOrder(MariusOptions{}));
}

TEST(NameTest, IsTheContracts) {
  EXPECT_EQ(Name(MemoryOptions{}), "memory");
  EXPECT_EQ(Name(MmapOptions{}), "mmap");
  EXPECT_EQ(Name(GnndriveOptions{}), "gnndrive");
  EXPECT_EQ(Name(GinexOptions{}), "ginex");
  EXPECT_EQ(Name(DiskgnnOptions{}), "diskgnn");
  EXPECT_EQ(Name(OutreOptions{}), "outre");
}

TEST(CheckTopologyTest, NamesTheOptionWhereAStrategyCannot) {
  const auto check = [](const StrategyOptions& options, TopologyPlace place,
                        std::optional<int> gpu = std::nullopt) {
    return CheckTopology(options, {.sampling_gpu = gpu, .topology = place});
  };
  for (const StrategyOptions& options :
       {StrategyOptions(MemoryOptions()), StrategyOptions(MmapOptions()),
        StrategyOptions(GnndriveOptions()), StrategyOptions(DiskgnnOptions()),
        StrategyOptions(GidsOptions())}) {
    EXPECT_TRUE(check(options, TopologyPlace::kAuto).ok());
    EXPECT_TRUE(check(options, TopologyPlace::kMemory).ok());
    EXPECT_TRUE(check(options, TopologyPlace::kMapped).ok());
    EXPECT_EQ(check(options, TopologyPlace::kSlabs).ok(),
              std::holds_alternative<DiskgnnOptions>(options));
  }
  for (const StrategyOptions& options :
       {StrategyOptions(GinexOptions()), StrategyOptions(OutreOptions())}) {
    EXPECT_TRUE(check(options, TopologyPlace::kAuto).ok());
    const absl::Status status = check(options, TopologyPlace::kMemory);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::StartsWith("topology: must be auto for strategy "));
  }
  EXPECT_TRUE(check(MemoryOptions(), TopologyPlace::kMemory, 0).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      check(MemoryOptions(), TopologyPlace::kMapped, 0)));
}

// A topology of 3000 bytes.
TEST(WithAutoTopologyTest, SlabsAreForTopologiesThatTakeMostOfTheMemory) {
  store::Manifest manifest;
  store::EdgeTypeEntry& edges = manifest.edge_types.emplace_back();
  edges.indptr.file_size_bytes = 1000;
  edges.indices.file_size_bytes = 2000;
  const auto chosen = [&](const StrategyOptions& options, TopologyPlace asked,
                          uint64_t limit) {
    return WithAutoTopology(options, {.topology = asked}, manifest, limit)
        .topology;
  };
  using enum TopologyPlace;
  EXPECT_EQ(chosen(DiskgnnOptions(), kAuto, 6000), kAuto);
  EXPECT_EQ(chosen(DiskgnnOptions(), kAuto, 5999), kSlabs);
  EXPECT_EQ(chosen(DiskgnnOptions(), kMapped, 10), kMapped);
  EXPECT_EQ(chosen(DiskgnnOptions(), kSlabs, 6000), kSlabs);
  EXPECT_EQ(chosen(GnndriveOptions(), kAuto, 10), kAuto);
}

TEST(LeavesNeighborsOnDiskTest, IsWhatIsVerifiedBeforehand) {
  using enum TopologyPlace;
  EXPECT_FALSE(LeavesNeighborsOnDisk(MemoryOptions(), {}));
  EXPECT_TRUE(LeavesNeighborsOnDisk(MemoryOptions(), {.topology = kMapped}));
  EXPECT_TRUE(LeavesNeighborsOnDisk(DiskgnnOptions(), {}));
  EXPECT_FALSE(LeavesNeighborsOnDisk(DiskgnnOptions(), {.topology = kMemory}));
  EXPECT_FALSE(LeavesNeighborsOnDisk(DiskgnnOptions(), {.topology = kSlabs}));
  EXPECT_FALSE(LeavesNeighborsOnDisk(GidsOptions(), {.sampling_gpu = 0}));
}

// A graph of 1000 nodes with rows of 400 bytes.
store::Manifest SmallGraph() {
  store::NodeTypeEntry nodes;
  nodes.name = "node";
  nodes.num_nodes = 1000;
  nodes.features.path = "node.features";
  nodes.features.shape = {1000, 100};
  store::Manifest manifest;
  manifest.node_types.push_back(nodes);
  return manifest;
}

MemoryBasis BasisOf(const store::Manifest& manifest) {
  const sample::BatchShape batch = {.nodes = {300, 100, 10},
                                    .edges = {500, 200}};
  return {.manifest = manifest,
          .pipeline = {.samplers = 4, .extractors = 3},
          .batches = {.largest = batch, .likely = batch, .bound = batch},
          .num_batches = 10,
          .total_batches = 10};
}

std::vector<std::string> OptionsCut(const StrategyOptions& options) {
  const store::Manifest manifest = SmallGraph();
  std::vector<std::string> names;
  for (const Budget& budget : BudgetsOf(options, BasisOf(manifest))) {
    EXPECT_LE(budget.least, budget.asked) << budget.option;
    names.push_back(budget.option);
  }
  return names;
}

TEST(BudgetsOfTest, WaitingBatchesGoFirstThenThreadsAndCachesLast) {
  EXPECT_THAT(OptionsCut(MemoryOptions{}), ElementsAre("samplers"));
  EXPECT_THAT(OptionsCut(MmapOptions{}), ElementsAre("samplers"));
  EXPECT_THAT(OptionsCut(GnndriveOptions{.staging_bytes = 1 << 20}),
              ElementsAre("sample-queue", "train-queue", "extractors",
                          "samplers", "cpu-cache", "staging"));
  EXPECT_THAT(
      OptionsCut(GinexOptions{.neighbor_cache_bytes = 1, .superbatch = 2}),
      ElementsAre("extractors", "samplers", "superbatch", "neighbor-cache",
                  "cpu-cache"));
  EXPECT_THAT(OptionsCut(OutreOptions{}),
              ElementsAre("extractors", "samplers", "cpu-cache"));
  EXPECT_THAT(
      OptionsCut(DiskgnnOptions{}),
      ElementsAre("extractors", "samplers", "prepare-memory", "cpu-cache"));
  EXPECT_THAT(OptionsCut(GidsOptions{}),
              ElementsAre("window", "samplers", "window-cache", "cpu-cache",
                          "staging"));
  EXPECT_THAT(OptionsCut(MariusOptions{}),
              ElementsAre("samplers", "partition-buffer"));
}

// For each strategy, all budgets at their least, and as asked.
TEST(WithBudgetsTest, SetsWhatIsLess) {
  const store::Manifest manifest = SmallGraph();
  const MemoryBasis basis = BasisOf(manifest);
  for (const StrategyOptions& options :
       {StrategyOptions(MemoryOptions{}), StrategyOptions(MmapOptions{}),
        StrategyOptions(GnndriveOptions{.cpu_cache_bytes = 1 << 20,
        .staging_bytes = 1 << 20}),
        StrategyOptions(GinexOptions{.cpu_cache_bytes = 1 << 18,
        .neighbor_cache_bytes = 1 << 20,
        .superbatch = 3}),
        StrategyOptions(DiskgnnOptions{.cpu_cache_bytes = 1 << 20}),
        StrategyOptions(OutreOptions{.cpu_cache_bytes = 1 << 20}),
        StrategyOptions(GidsOptions{}),
        StrategyOptions(MariusOptions{.partition_buffer_bytes = 1 << 18})}) {
    SCOPED_TRACE(Name(options));
    const std::vector<Budget> budgets = BudgetsOf(options, basis);
    std::vector<uint64_t> asked;
    std::vector<uint64_t> least;
    for (const Budget& budget : budgets) {
      asked.push_back(budget.asked);
      least.push_back(budget.least);
    }
    const StrategyConfiguration same = WithBudgets(options, basis, asked);
    EXPECT_EQ(same.strategy, options);
    EXPECT_EQ(same.pipeline, basis.pipeline);
    const StrategyConfiguration cut = WithBudgets(options, basis, least);
    EXPECT_EQ(cut.pipeline.samplers, 1);
    MemoryBasis smaller = basis;
    smaller.pipeline = cut.pipeline;
    for (const Budget& budget : BudgetsOf(cut.strategy, smaller)) {
      EXPECT_EQ(budget.asked, budget.least) << budget.option;
    }
    EXPECT_LT(EstimateMemory(cut.strategy, smaller)->TotalBytes(),
              EstimateMemory(options, basis)->TotalBytes());
  }
}

// The memory of a job on the graph, for several sizes of the row cache.
std::vector<uint64_t> BytesByCache(const StrategyOptions& options) {
  const store::Manifest manifest = SmallGraph();
  const MemoryBasis basis = BasisOf(manifest);
  std::vector<uint64_t> amounts;
  size_t cache = 0;
  for (const Budget& budget : BudgetsOf(options, basis)) {
    if (budget.option == "cpu-cache") cache = amounts.size();
    amounts.push_back(budget.asked);
  }
  std::vector<uint64_t> bytes;
  for (uint64_t cache_bytes = 0; cache_bytes <= 450'000; cache_bytes += 5'000) {
    amounts[cache] = cache_bytes;
    bytes.push_back(
        EstimateMemory(WithBudgets(options, basis, amounts).strategy, basis)
            ->TotalBytes());
  }
  return bytes;
}

std::vector<StrategyOptions> StrategiesWithRowCaches() {
  constexpr uint64_t kAllRows = 450'000;
  return {GnndriveOptions{.cpu_cache_bytes = kAllRows},
          GinexOptions{.cpu_cache_bytes = kAllRows, .superbatch = 3},
          OutreOptions{.cpu_cache_bytes = kAllRows},
          DiskgnnOptions{.cpu_cache_bytes = kAllRows},
          GidsOptions{.cpu_cache_bytes = kAllRows}};
}

// FitBudgets relies on this property.
TEST(EstimateMemoryTest, IfSomeOfACacheFitsLessOfItDoes) {
  for (const StrategyOptions& options : StrategiesWithRowCaches()) {
    SCOPED_TRACE(Name(options));
    const std::vector<uint64_t> bytes = BytesByCache(options);
    for (size_t asked = 0; asked < bytes.size(); ++asked) {
      uint64_t most = 0;
      for (size_t i = 0; i < asked; ++i) {
        most = std::max(most, bytes[i]);
        if (bytes[i] < bytes[asked]) {
          EXPECT_GE(bytes[i], most) << i << " of " << asked;
        }
      }
    }
  }
}

// Cached rows need no memory for reading them.
TEST(EstimateMemoryTest, BesideACacheOfAllRowsFewAreRead) {
  for (const StrategyOptions& options :
       {StrategyOptions(DiskgnnOptions{}),
        StrategyOptions(GinexOptions{.superbatch = 3}),
        StrategyOptions(OutreOptions{})}) {
    SCOPED_TRACE(Name(options));
    const std::vector<uint64_t> bytes = BytesByCache(options);
    // Rows of 300 nodes for each buffer, where a fifth of them is cached.
    EXPECT_LT(bytes.back(), bytes[16] + 320'000);
  }
}

TEST(WithAutoBudgetsTest, IsAllRowsButAtMostHalfOfTheLimit) {
  const store::Manifest manifest = SmallGraph();
  const auto sized = [&](uint64_t limit) {
    return std::get<DiskgnnOptions>(
               WithAutoBudgets(DiskgnnOptions{.cpu_cache_bytes = kAutoBytes},
                               manifest, limit))
        .cpu_cache_bytes;
  };
  EXPECT_EQ(sized(1 << 30), 1000u * 408);
  EXPECT_EQ(sized(100000), 50000u);
  // Given sizes stay, and strategies without such a cache do not change.
  for (const StrategyOptions& given :
       {StrategyOptions(DiskgnnOptions{.cpu_cache_bytes = 1 << 30}),
        StrategyOptions(GidsOptions{}), StrategyOptions(MemoryOptions{})}) {
    EXPECT_EQ(WithAutoBudgets(given, manifest, 1000), given);
  }
}

TEST(WithMeasuredBudgetsTest, SizesTheMemoryToPrepareOnceBatchesAreKnown) {
  const store::Manifest manifest = SmallGraph();
  const MemoryBasis basis = BasisOf(manifest);
  const auto sized = [&](uint64_t asked) {
    return std::get<DiskgnnOptions>(
               WithMeasuredBudgets(
                   DiskgnnOptions{.prepare_memory_bytes = asked}, basis))
        .prepare_memory_bytes;
  };
  EXPECT_EQ(sized(12345), 12345u);
  // With a small graph: its rows, and the buffers of the threads.
  EXPECT_GT(sized(kAutoBytes), 1u << 20);
  EXPECT_LT(sized(kAutoBytes), 128u << 20);
  const StrategyOptions given = GinexOptions{.cpu_cache_bytes = 5};
  EXPECT_EQ(WithMeasuredBudgets(given, basis), given);
}

}  // namespace
}  // namespace hearth::strategy
