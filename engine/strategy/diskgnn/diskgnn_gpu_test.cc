// DiskGNN with a GPU cache: emulated on the CPU, and on a fake GPU.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/io/file_system.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/gpu_cache_harness.h"
#include "engine/strategy/testing/planning_harness.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using cuda::FakeCuda;
using hearth::testing::ModelOnFake;
using ::testing::HasSubstr;

// Options as in diskgnn_test.cc, with a GPU cache; some rows are left to the
// disk cache.
constexpr DiskgnnOptions kSome = {.cpu_cache_bytes = 20 * 148,
                                  .gpu_cache_bytes = 15 * 148,
                                  .disk_limit_bytes = 400'000,
                                  .io_depth = 4};

using DiskgnnGpuTest = GpuCacheTest<PlanningHarness>;

TEST_P(DiskgnnGpuTest, AnySplitOfTheBudgetsGivesTheSameBatches) {
  for (const uint64_t gpu_bytes : {1, 148, 40 * 148, 1 << 20}) {
    for (DiskgnnOptions options : std::vector<DiskgnnOptions>{
             {},
             {.cpu_cache_bytes = 20 * 148, .disk_limit_bytes = 400'000},
             {.cpu_cache_bytes = 20 * 148, .disk_cache_bytes = 0},
             {.cpu_cache_bytes = 1 << 20}}) {
      options.gpu_cache_bytes = gpu_bytes;
      const auto strategy = Make(options, {.samplers = 2, .extractors = 2});
      ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
      ExpectAllPasses(*strategy);
    }
  }
}

TEST_P(DiskgnnGpuTest, ReportsAddUp) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("15 rows on the GPU"));
  const PassReport report = Run(*strategy, MakePass(0)).report;
  ASSERT_EQ(report.hits.size(), 2u);
  EXPECT_EQ(report.hits[0].level, "gpu_cache");
  EXPECT_EQ(report.hits[1].level, "cpu_cache");
  // The GPU cache has fewer rows, but more popular ones.
  EXPECT_GT(report.hits[0].rows, report.batches);
  EXPECT_GT(report.hits[1].rows, 0);
  EXPECT_GT(*report.rows_read, 0);
  EXPECT_EQ(report.hits[0].rows + report.hits[1].rows + *report.rows_read,
            report.rows_needed);
}

TEST_P(DiskgnnGpuTest, ABudgetOfLessThanARowHoldsNone) {
  const auto strategy =
      Make(DiskgnnOptions{.cpu_cache_bytes = 20 * 148, .gpu_cache_bytes = 147});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const PassReport report = Run(*strategy, MakePass(0)).report;
  ASSERT_EQ(report.hits.size(), 2u);
  EXPECT_EQ(report.hits[0].level, "gpu_cache");
  EXPECT_EQ(report.hits[0].rows, 0);
  EXPECT_GT(report.hits[1].rows, 0);
}

TEST_P(DiskgnnGpuTest, AllOnTheGpuReadsNoRows) {
  const auto strategy = Make(DiskgnnOptions{.gpu_cache_bytes = 1 << 20});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const PassReport report = Run(*strategy, MakePass(0)).report;
  EXPECT_EQ(report.hits[0].rows, report.rows_needed);
  EXPECT_EQ(*report.rows_read, 0);
}

TEST_P(DiskgnnGpuTest, DamageOfTheCacheIsHealedAtOnce) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  const std::map<std::string, std::string> whole = Files();
  EXPECT_EQ(whole.at("gpu_cache").size(), 15u * 148u);
  Damage("gpu_cache");
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("made again"));
  EXPECT_THAT(log_, HasSubstr("gpu_cache"));
  EXPECT_TRUE(Files() == whole);
  ExpectAllPasses(*strategy);
}

INSTANTIATE_TEST_SUITE_P(Where, DiskgnnGpuTest, ::testing::ValuesIn(kGpuPlaces),
                         GpuPlaceName);

using DiskgnnOnFakeTest = FakeGpuCacheTest<PlanningHarness>;

TEST_F(DiskgnnOnFakeTest, ThePlanIsThatOfTheTwin) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  gpu_ = EmulatedGpu{};
  const auto twin = Make(kSome);
  ASSERT_EQ(Prepare(*twin), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("reused"));
  ExpectAllPasses(*twin);
}

TEST_F(DiskgnnOnFakeTest, ABatchIsOneKernel) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  const PassReport report = Run(*strategy, MakePass(0)).report;
  EXPECT_EQ(fake_.scatters(), report.batches);
}

TEST_F(DiskgnnOnFakeTest, ARestLeavesTheCaches) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_EQ(fake_.device_bytes(), 15 * 148);
  EXPECT_EQ(fake_.pinned_bytes(), 20 * 148);
  EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
  EXPECT_GT(fake_.device_bytes(), 15 * 148);
  strategy->Rest();
  EXPECT_EQ(fake_.device_bytes(), 15 * 148);
  EXPECT_EQ(fake_.pinned_bytes(), 20 * 148);
  ExpectAllPasses(*strategy);
}

TEST_F(DiskgnnOnFakeTest, RowsStayThereForModelsThere) {
  ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
  for (const int extractors : {1, 3}) {
    const auto strategy =
        Make(kSome, {.samplers = 1, .extractors = extractors});
    ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
    for (const Pass& pass : Passes()) {
      const Outcome outcome = RunOnGpu(*strategy, pass, absl::MakeSpan(models));
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.batches, Expected(pass));
      // Passes for models elsewhere have their rows in host memory.
      EXPECT_EQ(Run(*strategy, pass).batches, outcome.batches);
    }
    strategy->Rest();
    EXPECT_EQ(fake_.device_bytes(), 15 * 148);
  }
}

TEST_F(DiskgnnOnFakeTest, ADeviceThatFailsEndsAPassWhoseRowsStay) {
  for (const int64_t nth : {1, 5, 30, 60}) {
    ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
    const auto strategy = Make(kSome);
    ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
    fake_.FailWork(nth);
    const Outcome outcome =
        RunOnGpu(*strategy, MakePass(0), absl::MakeSpan(models));
    EXPECT_TRUE(fake_.failed());
    EXPECT_TRUE(absl::IsInternal(outcome.status)) << outcome.status;
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("CUDA device 0"));
  }
}

TEST_F(DiskgnnOnFakeTest, RowsOfAPassTakeNoMoreOfTheGpuThanTheirBound) {
  ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
  const auto strategy = Make(kSome);
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  fake_.TakePeakDeviceBytes();
  ASSERT_TRUE(
      RunOnGpu(*strategy, MakePass(0), absl::MakeSpan(models)).status.ok());
  // The models of this test hold two batches.
  const sample::BatchShape largest = LargestBatch(*strategy, MakePass(0));
  const int64_t peak =
      fake_.TakePeakDeviceBytes() - 2 * largest.num_inputs() * kRowBytes;
  const auto estimate = EstimateMemory(
      kSome,
      {.manifest = Dataset().manifest(),
       .pipeline = {},
       .batches = {.largest = largest, .likely = largest, .bound = largest},
       .num_batches = 12,
       .total_batches = 12});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const auto bound = static_cast<int64_t>(estimate->TotalBytes(kRowsOnGpu));
  EXPECT_LE(peak, bound);
  // As many buffers are filled as batches overlap: at least one of three.
  EXPECT_GT(4 * peak, bound);
}

TEST_F(DiskgnnOnFakeTest, WithoutAGpuBudgetItIsLeftAlone) {
  fake_.FailCall(1);
  const auto strategy = Make(DiskgnnOptions{.cpu_cache_bytes = 20 * 148});
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  ExpectAllPasses(*strategy);
  EXPECT_FALSE(fake_.failed());
}

TEST_F(DiskgnnOnFakeTest, ADeviceThatFailsEndsThePass) {
  for (const int64_t nth : {1, 5, 30}) {
    const auto strategy = Make(kSome);
    ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
    fake_.FailWork(nth);
    const Outcome outcome = Run(*strategy, MakePass(0));
    EXPECT_TRUE(fake_.failed());
    EXPECT_TRUE(absl::IsInternal(outcome.status)) << outcome.status;
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("CUDA device 0"));
  }
}

TEST_F(DiskgnnOnFakeTest, ACacheThatDoesNotFitEndsThePreparation) {
  ASSERT_EQ(Prepare(*Make(kSome)), absl::OkStatus());
  // The third call, after a stream and an event.
  fake_.FailCall(3, HEARTH_CUDA_OUT_OF_MEMORY);
  const auto strategy = Make(kSome);
  const absl::Status status = Prepare(*strategy);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("2220 bytes of device memory"));
  // A failing GPU does not mark the plan as damaged.
  ASSERT_EQ(Prepare(*strategy), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("reused"));
  ExpectAllPasses(*strategy);
}

uint64_t KeptBytes(const MemoryEstimate& estimate) {
  uint64_t total = 0;
  for (const MemoryShare& share : estimate.shares) {
    if (share.kept && share.place == MemoryPlace()) total += share.bytes;
  }
  return total;
}

TEST(DiskgnnGpuMemoryTest, TheGpusRowsAreNoneOfTheHosts) {
  const auto path = hearth::testing::ImportPlantedGraph(
      {.num_nodes = 300, .feature_dim = 37},
      ::testing::TempDir() + "diskgnn_memory");
  ASSERT_TRUE(path.ok()) << path.status();
  const auto dataset = store::Dataset::Open(io::FileSystem::Posix(), *path);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const MemoryBasis basis = {.manifest = (*dataset)->manifest(),
                             .pipeline = {},
                             .batches = {},
                             .num_batches = 12,
                             .total_batches = 12};
  DiskgnnOptions options = kSome;
  options.gpu_cache_bytes = uint64_t{10} << 30;
  const auto with = EstimateMemory(options, basis);
  ASSERT_TRUE(with.ok()) << with.status();
  options.gpu_cache_bytes = 0;
  const auto without = EstimateMemory(options, basis);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(KeptBytes(*with), KeptBytes(*without));
  EXPECT_EQ(without->TotalBytes(kRowsOnGpu), 0u);
  // No more rows than there are.
  EXPECT_GE(with->TotalBytes(kRowsOnGpu), 300 * 37 * sizeof(float));
  EXPECT_LE(with->TotalBytes(kRowsOnGpu), 1u << 20);
  // While planning, the list of nodes held.
  EXPECT_LE(with->TotalBytes(), without->TotalBytes() + 300 * 16);
}

}  // namespace
}  // namespace hearth::strategy
