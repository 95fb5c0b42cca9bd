// Foresight with slots on a GPU: emulated on the CPU, and on a fake GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/foresight/foresight.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/pass_sequence.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/gpu_cache_harness.h"
#include "engine/strategy/testing/planning_harness.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

using cuda::FakeCuda;
using hearth::testing::ModelOnFake;
using ::testing::HasSubstr;

// 30 slots on the GPU, and 20 in host memory.
constexpr ForesightOptions kSome = {
    .cpu_cache_bytes = 20 * 152, .gpu_cache_bytes = 30 * 148, .io_depth = 4};

class ForesightGpu : public PlanningHarness {
 protected:
  // 4 epochs, of which 2 are distinct, each with validation.
  PassSequence Sequence() const {
    PassSequence sequence;
    sequence.passes = Passes();
    sequence.passes.back().evaluates = true;
    for (const size_t epoch : {0, 1, 0, 1}) {
      sequence.order.push_back(epoch);
      sequence.order.push_back(2);
    }
    return sequence;
  }

  // Expects the batches of `memory` in all passes of the sequence.
  void ExpectSequence(Strategy& strategy) {
    const PassSequence sequence = Sequence();
    for (const size_t pass : sequence.order) {
      const Outcome outcome = Run(strategy, sequence.passes[pass]);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.batches, Expected(sequence.passes[pass]));
    }
  }
};

using ForesightGpuTest = GpuCacheTest<ForesightGpu>;

TEST_P(ForesightGpuTest, AnySplitOfTheBudgetsGivesTheSameBatches) {
  for (const uint64_t gpu_bytes : {1, 148, 40 * 148, 1 << 20}) {
    for (ForesightOptions options : std::vector<ForesightOptions>{
             {},
             {.cpu_cache_bytes = 20 * 152},
             {.cpu_cache_bytes = 20 * 152, .disk_limit_bytes = 1},
             {.cpu_cache_bytes = 1 << 20, .first_epochs = 4}}) {
      options.gpu_cache_bytes = gpu_bytes;
      const auto strategy = Make(options, {.samplers = 2, .extractors = 2});
      ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
      ExpectSequence(*strategy);
    }
  }
}

TEST_P(ForesightGpuTest, PlansDependOnTheSumOfBothCaches) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
  const PassReport both = Run(*strategy, MakePass(0)).report;
  gpu_ = {};
  const auto on_host = Make(ForesightOptions{.cpu_cache_bytes = 50 * 152});
  log_.clear();
  ASSERT_EQ(PrepareFor(*on_host, Sequence()), absl::OkStatus());
  EXPECT_THAT(log_, HasSubstr("reused"));
  const PassReport alone = Run(*on_host, MakePass(0)).report;
  ASSERT_EQ(both.hits.size(), 2u);
  EXPECT_EQ(both.hits[0].level, "gpu_cache");
  EXPECT_EQ(both.hits[1].level, "cpu_cache");
  EXPECT_GT(both.hits[0].rows, both.hits[1].rows);
  EXPECT_GT(both.hits[1].rows, 0);
  ASSERT_EQ(alone.hits.size(), 1u);
  EXPECT_EQ(both.hits[0].rows + both.hits[1].rows, alone.hits[0].rows);
  EXPECT_EQ(*both.rows_read, *alone.rows_read);
  EXPECT_EQ(both.hits[0].rows + both.hits[1].rows + *both.rows_read,
            both.rows_needed);
}

// Passes come in another order than was told, and from the middle: slots are
// arranged anew, rows move between GPU and host.
TEST_P(ForesightGpuTest, PassesOutOfTurnFindTheirRows) {
  const auto strategy = Make(kSome, {.samplers = 1, .extractors = 2});
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
  for (const auto& [key, first] :
       std::vector<std::pair<uint64_t, int64_t>>{{1, 0}, {0, 5}, {1, 3}}) {
    const Pass pass = MakePass(key, first);
    const Outcome outcome = Run(*strategy, pass);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.batches, Expected(pass));
  }
}

INSTANTIATE_TEST_SUITE_P(Where, ForesightGpuTest,
                         ::testing::ValuesIn(kGpuPlaces), GpuPlaceName);

using ForesightOnFakeTest = FakeGpuCacheTest<ForesightGpu>;

TEST_F(ForesightOnFakeTest, RowsStayThereForModelsThere) {
  ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
  const PassSequence sequence = Sequence();
  for (const int extractors : {1, 3}) {
    const auto strategy =
        Make(kSome, {.samplers = 1, .extractors = extractors});
    ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
    for (const size_t at : sequence.order) {
      const Pass& pass = sequence.passes[at];
      const Outcome outcome = RunOnGpu(*strategy, pass, absl::MakeSpan(models));
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.batches, Expected(pass));
    }
    // Passes for models elsewhere have their rows in host memory.
    EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)));
    strategy->Rest();
    EXPECT_EQ(fake_.device_bytes(), 30 * 148);
  }
}

// Rows are left in place for no layer, but nothing else changes.
TEST_F(ForesightOnFakeTest, LayersThatWouldReadInPlaceTakeInputRows) {
  EXPECT_TRUE(LeavesRowsInPlace(ForesightOptions()));
  EXPECT_FALSE(LeavesRowsInPlace(kSome));
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
  Pass pass = MakePass(0);
  pass.rows_in_place = true;
  EXPECT_EQ(Run(*strategy, pass).batches, Expected(MakePass(0)));
}

TEST_F(ForesightOnFakeTest, ARestLeavesTheSlots) {
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
  EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
  EXPECT_GT(fake_.device_bytes(), 30 * 148);
  strategy->Rest();
  EXPECT_EQ(fake_.device_bytes(), 30 * 148);
  EXPECT_EQ(fake_.pinned_bytes(), 0);
  EXPECT_EQ(fake_.registered_bytes(), 20 * 148);
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
  ExpectSequence(*strategy);
}

TEST_F(ForesightOnFakeTest, WithoutAGpuBudgetItIsLeftAlone) {
  fake_.FailCall(1);
  const auto strategy = Make(ForesightOptions{.cpu_cache_bytes = 20 * 152});
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
  ExpectSequence(*strategy);
  EXPECT_FALSE(fake_.failed());
}

TEST_F(ForesightOnFakeTest, ADeviceThatFailsEndsThePass) {
  for (const int64_t nth : {1, 2, 5, 30, 61, 92}) {
    const auto strategy = Make(kSome);
    ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
    fake_.FailWork(nth);
    const Outcome outcome = Run(*strategy, MakePass(0));
    EXPECT_TRUE(fake_.failed()) << nth;
    EXPECT_TRUE(absl::IsInternal(outcome.status)) << outcome.status;
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("CUDA device 0"));
  }
}

// Wherever a call finds no memory, the pass ends with its error, and the next
// one trusts no row that may not have reached the GPU.
TEST_F(ForesightOnFakeTest, ADeviceWithoutMemoryEndsThePass) {
  for (const int64_t nth : {1, 2, 3, 4, 10, 40, 100}) {
    const auto strategy = Make(kSome);
    ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
    fake_.FailCall(nth, HEARTH_CUDA_OUT_OF_MEMORY);
    const Outcome outcome = Run(*strategy, MakePass(0));
    EXPECT_TRUE(fake_.failed()) << nth;
    EXPECT_TRUE(absl::IsResourceExhausted(outcome.status)) << outcome.status;
    const Outcome again = Run(*strategy, MakePass(0));
    EXPECT_TRUE(again.status.ok()) << again.status;
    EXPECT_EQ(again.batches, Expected(MakePass(0)));
  }
}

TEST_F(ForesightOnFakeTest, ADeviceThatFailsEndsAPassWhoseRowsStay) {
  for (const int64_t nth : {1, 5, 30, 60}) {
    ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
    const auto strategy = Make(kSome);
    ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
    fake_.FailWork(nth);
    const Outcome outcome =
        RunOnGpu(*strategy, MakePass(0), absl::MakeSpan(models));
    EXPECT_TRUE(fake_.failed());
    EXPECT_TRUE(absl::IsInternal(outcome.status)) << outcome.status;
  }
}

TEST_F(ForesightOnFakeTest, ACacheThatDoesNotFitIsAnError) {
  fake_.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  const auto strategy = NewStrategy(kSome, {}, Dataset(),
                                    {.read_queues = *queues_,
                                     .clock = clock_,
                                     .scratch_folder = scratch_.Path("scratch"),
                                     .plans = plans_.get(),
                                     .files = faulty_,
                                     .gpu = gpu_});
  EXPECT_TRUE(absl::IsResourceExhausted(strategy.status()))
      << strategy.status();
  EXPECT_THAT(std::string(strategy.status().message()),
              HasSubstr("4440 bytes of device memory"));
}

TEST_F(ForesightOnFakeTest, APassTakesNoMoreOfTheGpuThanItsBound) {
  ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
  const auto strategy = Make(kSome);
  ASSERT_EQ(PrepareFor(*strategy, Sequence()), absl::OkStatus());
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
  EXPECT_LE(peak, static_cast<int64_t>(estimate->TotalBytes(kRowsOnGpu)));
}

TEST(ForesightGpuMemoryTest, TheGpusRowsAreNoneOfTheHosts) {
  const auto path = hearth::testing::ImportPlantedGraph(
      {.num_nodes = 300, .feature_dim = 37},
      ::testing::TempDir() + "foresight_memory");
  ASSERT_TRUE(path.ok()) << path.status();
  const auto dataset = store::Dataset::Open(io::FileSystem::Posix(), *path);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const MemoryBasis basis = {.manifest = (*dataset)->manifest(),
                             .pipeline = {},
                             .batches = {},
                             .num_batches = 12,
                             .total_batches = 12};
  const auto kept = [](const MemoryEstimate& estimate) {
    uint64_t total = 0;
    for (const MemoryShare& share : estimate.shares) {
      if (share.kept && share.place == MemoryPlace()) total += share.bytes;
    }
    return total;
  };
  const auto with = EstimateMemory(kSome, basis);
  ASSERT_TRUE(with.ok()) << with.status();
  ForesightOptions options = kSome;
  options.gpu_cache_bytes = 0;
  const auto without = EstimateMemory(options, basis);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->TotalBytes(kRowsOnGpu), 0u);
  EXPECT_GE(with->TotalBytes(kRowsOnGpu), 30 * 148u);
  // The numbers of the rows there.
  EXPECT_EQ(kept(*with), kept(*without) + 30 * sizeof(uint32_t));
}

}  // namespace
}  // namespace hearth::strategy
