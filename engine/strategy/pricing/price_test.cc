// Which strategy is the cheapest, on rates of machines that there may be.
#include "engine/strategy/pricing/price.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/disk_profile.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/pricing/miss_curves.h"
#include "engine/strategy/pricing/workload.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNodes = 10'000'000;
constexpr int64_t kEdges = 120'000'000;
constexpr int64_t kDim = 128;
constexpr uint64_t kCache = uint64_t{512} << 20;

store::Manifest Graph() {
  store::Manifest manifest;
  store::NodeTypeEntry nodes;
  nodes.name = "node";
  nodes.num_nodes = kNodes;
  nodes.features.shape = {kNodes, kDim};
  nodes.features.path = "features.npy";
  nodes.features.file_size_bytes = kNodes * kDim * sizeof(float);
  nodes.labels.file_size_bytes = kNodes * sizeof(int32_t);
  manifest.node_types.push_back(std::move(nodes));
  store::EdgeTypeEntry edges;
  edges.name = "edge";
  edges.num_edges = kEdges;
  edges.indptr.file_size_bytes = (kNodes + 1) * sizeof(int64_t);
  edges.indices.file_size_bytes = kEdges * sizeof(int64_t);
  manifest.edge_types.push_back(std::move(edges));
  return manifest;
}

machine::DiskProfile Disk(double reads_per_second, double bytes_per_second) {
  return {.pages = {{1, 1, reads_per_second / 10},
                    {1, 64, reads_per_second},
                    {2, 64, reads_per_second}},
          .reads_of_16k = reads_per_second / 2,
          .reads_of_128k = bytes_per_second / 131072,
          .streams = {bytes_per_second},
          .write_bytes_per_second = bytes_per_second / 2,
          .seconds_per_read = 2e-6,
          .copy_seconds_per_byte = 2e-10,
          .copy_seconds_per_row = 2e-8,
          .checksum_seconds_per_byte = 1e-10,
          .memory_seconds_per_byte = 2e-10};
}

class PriceTest : public ::testing::Test {
 protected:
  PriceTest() {
    work_.training = {.batches = 100, .step_seconds = 0.05};
    work_.rows = 1e5;
    work_.edges = 2e5;
    work_.lists = 3e4;
    work_.sample_seconds = 0.03;
    work_.sampled_batches = 10;
  }

  PricedJob Job(const machine::DiskProfile& disk, int processors) {
    work_.misses = std::make_shared<MissCurves>(
        seen_, static_cast<int64_t>(work_.training.batches),
        /*repeats=*/work_.distinct_epochs == 1);
    return {.work = work_,
            .disk = disk,
            .processors = processors,
            .basis = basis_,
            .checks_rows = true};
  }

  // Seconds of a job with each strategy but those that need more than a cache:
  // memory and a partition.
  std::string Cheapest(const machine::DiskProfile& disk, int processors) {
    const PricedJob job = Job(disk, processors);
    std::string best;
    double least = 0;
    for (size_t i = 0; i < StrategyKinds().size(); ++i) {
      const StrategyKind& kind = StrategyKinds()[i];
      if (kind.name == "memory" || kind.needs_partition || !kind.exact) {
        continue;
      }
      const StrategyOptions options = WithMeasuredBudgets(
          WithCommonBudgets(i, {.cpu_cache_bytes = kCache}), basis_);
      const auto price = PriceOf(options, job);
      EXPECT_TRUE(price.ok()) << price.status();
      const double seconds = price->Total(work_);
      EXPECT_GT(seconds, 0) << kind.name;
      if (best.empty() || seconds < least) {
        least = seconds;
        best = std::string(kind.name);
      }
    }
    return best;
  }

  const store::Manifest manifest_ = Graph();
  MemoryBasis basis_ = {.manifest = manifest_,
                        .pipeline = {.samplers = 1, .extractors = 2},
                        .batches = {},
                        .num_batches = 100,
                        .total_batches = 100};
  Workload work_;
  // Nodes in so many of the sampled batches.
  std::vector<double> seen_ = {9e6, 6e5, 8e4, 2e4, 8e3, 4e3,
                               2e3, 1e3, 1e3, 1e3, 2e3};
};

// 20,000 reads a second: rows are read in order, for many epochs.
TEST_F(PriceTest, ASlowDiskIsReadInOrder) {
  work_.epochs = 10;
  work_.distinct_epochs = 1;
  const std::string best = Cheapest(Disk(2e4, 5e8), 2);
  EXPECT_TRUE(best == "diskgnn" || best == "foresight") << best;
}

TEST_F(PriceTest, AFastDiskIsReadRowByRow) {
  work_.epochs = 1;
  work_.distinct_epochs = 1;
  const std::string best = Cheapest(Disk(2e6, 6e9), 64);
  EXPECT_TRUE(best == "gnndrive" || best == "gids") << best;
}

TEST_F(PriceTest, ForAFewBatchesNothingIsPacked) {
  work_.epochs = 1;
  work_.distinct_epochs = 1;
  work_.training.batches = 2;
  seen_ = {9.8e6, 1.9e5, 5e3};
  EXPECT_NE(Cheapest(Disk(1e5, 2e9), 2), "diskgnn");
}

// Where the page cache holds all features, a page is read once.
TEST_F(PriceTest, PagesThatStayAreReadOnce) {
  work_.epochs = 100;
  work_.distinct_epochs = 1;
  const machine::DiskProfile disk = Disk(1e5, 2e9);
  PricedJob job = Job(disk, 2);
  job.page_cache_bytes = uint64_t{8} << 30;
  const auto roomy = PriceOf(MmapOptions(), job);
  job.page_cache_bytes = uint64_t{1} << 30;
  const auto tight = PriceOf(MmapOptions(), job);
  ASSERT_TRUE(roomy.ok() && tight.ok());
  EXPECT_EQ(roomy->bytes_read, 0);
  EXPECT_GT(tight->bytes_read, 0);
  EXPECT_LT(roomy->epoch_seconds, roomy->first_epoch_seconds);
  EXPECT_LT(roomy->epoch_seconds, tight->epoch_seconds);
}

// A second scan of the features is worth it where training hides it.
TEST_F(PriceTest, EpochsArePreparedTogetherWhereTrainingIsShort) {
  work_.epochs = 3;
  work_.distinct_epochs = 3;
  work_.sample_seconds = 0.003;
  const machine::DiskProfile disk = Disk(5e4, 1e9);
  const auto seconds = [&](double first_epochs) {
    return PriceOf(ForesightOptions{.cpu_cache_bytes = kCache,
                                    .first_epochs = first_epochs},
                   Job(disk, 8))
        ->Total(work_);
  };
  work_.training.step_seconds = 0.001;
  EXPECT_LT(seconds(8), seconds(0.5));
  work_.training.step_seconds = 0.3;
  EXPECT_LT(seconds(0.5), seconds(8));
}

TEST_F(PriceTest, MoreProcessorsAndFasterDisksAreNoSlower) {
  work_.epochs = 3;
  work_.distinct_epochs = 3;
  for (size_t i = 0; i < StrategyKinds().size(); ++i) {
    const StrategyOptions options = WithMeasuredBudgets(
        WithCommonBudgets(i, {.cpu_cache_bytes = kCache}), basis_);
    const auto seconds = [&](const machine::DiskProfile& disk, int processors) {
      return PriceOf(options, Job(disk, processors))->Total(work_);
    };
    const double base = seconds(Disk(5e4, 1e9), 2);
    EXPECT_LE(seconds(Disk(5e4, 1e9), 8), base) << Name(options);
    EXPECT_LE(seconds(Disk(5e5, 1e10), 2), base) << Name(options);
  }
}

TEST(BatchesToSampleTest, IsASmallShareOfTheJob) {
  EXPECT_EQ(BatchesToSample(1), 16);
  EXPECT_EQ(BatchesToSample(1000), 60);
  EXPECT_EQ(BatchesToSample(1e6), 64);
}

}  // namespace
}  // namespace hearth::strategy
