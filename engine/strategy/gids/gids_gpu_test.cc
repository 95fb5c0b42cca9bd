// GIDS with its window cache in the memory of a GPU: emulated on the CPU, and
// on a fake GPU.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/gids/gids_fixture.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/gpu_cache_harness.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

using cuda::FakeCuda;
using hearth::testing::Measured;
using hearth::testing::ModelOnFake;
using ::testing::HasSubstr;

constexpr int64_t kLines = 100;

GidsOptions Some() {
  return {.cpu_cache_bytes = 60 * kRowBytes,
          .gpu_cache_bytes = kLines * kRowBytes,
          .window = 4,
          .io_depth = 8};
}

using GidsGpuTest = GpuCacheTest<GidsTest>;

TEST_P(GidsGpuTest, HitsAndBatchesAreThoseOfLinesInHostMemory) {
  GidsOptions in_host = Some();
  in_host.gpu_cache_bytes = 0;
  in_host.window_cache_bytes = kLines * kRowBytes;
  const Outcome expected = Run(*Make(in_host), MakePass(0));
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_GT(expected.cached(), 0);
  EXPECT_GT(expected.report.overlap->bypassed, 0);
  const Outcome found = Run(*Make(Some(), {.samplers = 2}), MakePass(0));
  ASSERT_TRUE(found.status.ok()) << found.status;
  EXPECT_EQ(found.batches, expected.batches);
  EXPECT_EQ(found.buffered(), expected.buffered());
  EXPECT_EQ(found.cached(), expected.cached());
  EXPECT_EQ(found.read(), expected.read());
}

TEST_P(GidsGpuTest, AnySizesGiveTheBatchesOfMemory) {
  const std::vector<std::string> expected = Expected(MakePass(0));
  for (const uint64_t buffered : {0, 60, 1000}) {
    for (const uint64_t lines : {1, 30, 1000}) {
      GidsOptions options = Some();
      options.cpu_cache_bytes = buffered * kRowBytes;
      options.gpu_cache_bytes = lines * kRowBytes;
      const auto strategy = Make(options);
      for (int pass = 0; pass < 2; ++pass) {
        const Outcome outcome = Run(*strategy, MakePass(0));
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        EXPECT_EQ(outcome.batches, expected);
      }
    }
  }
}

TEST_P(GidsGpuTest, LessThanALineKeepsNone) {
  GidsOptions options = Some();
  options.gpu_cache_bytes = kRowBytes - 1;
  const Outcome outcome = Run(*Make(options), MakePass(0));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.cached(), 0);
  EXPECT_EQ(outcome.batches, Expected(MakePass(0)));
}

INSTANTIATE_TEST_SUITE_P(Where, GidsGpuTest, ::testing::ValuesIn(kGpuPlaces),
                         GpuPlaceName);

class GidsOnFakeTest : public FakeGpuCacheTest<GidsTest> {
 protected:
  // A pass whose rows stay on the GPU.
  static Outcome RunOnGpu(Strategy& strategy, const Pass& pass,
                          absl::Span<ModelOnFake> models) {
    Outcome outcome;
    outcome.status =
        hearth::testing::RunOnGpu(strategy, Measured(*dataset_, pass), models,
                                  outcome.batches, outcome.report);
    return outcome;
  }
};

TEST_F(GidsOnFakeTest, RowsStayThereForModelsThere) {
  ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
  const auto strategy = Make(Some(), {.samplers = 2});
  for (const Pass& pass : {MakePass(0), MakePass(1), MakePass(7, valid_)}) {
    const Outcome outcome = RunOnGpu(*strategy, pass, absl::MakeSpan(models));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_GT(outcome.cached(), 0);
    EXPECT_EQ(outcome.batches, Expected(pass));
    // Passes for models elsewhere have their rows in host memory.
    EXPECT_EQ(Run(*strategy, pass).batches, outcome.batches);
  }
}

TEST_F(GidsOnFakeTest, ARestLeavesTheRowsThatAreKept) {
  {
    const auto strategy = Make(Some());
    const int64_t buffered = fake_.registered_bytes();
    EXPECT_GT(buffered, 50 * kRowBytes);
    EXPECT_TRUE(Run(*strategy, MakePass(0)).status.ok());
    EXPECT_GT(fake_.device_bytes(), kLines * kRowBytes);
    strategy->Rest();
    EXPECT_EQ(fake_.device_bytes(), kLines * kRowBytes);
    EXPECT_EQ(fake_.registered_bytes(), buffered);
    const Outcome again = Run(*strategy, MakePass(0));
    EXPECT_EQ(again.batches, Expected(MakePass(0)));
  }
  EXPECT_EQ(fake_.device_bytes(), 0);
  EXPECT_EQ(fake_.registered_bytes(), 0);
}

TEST_F(GidsOnFakeTest, WithoutAGpuBudgetItIsLeftAlone) {
  fake_.FailCall(1);
  const auto strategy = Make({.cpu_cache_bytes = 60 * kRowBytes});
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)));
  EXPECT_FALSE(fake_.failed());
}

TEST_F(GidsOnFakeTest, ADeviceThatFailsEndsThePass) {
  for (const int64_t nth : {1, 5, 30, 60}) {
    ModelOnFake models[] = {ModelOnFake(fake_)};
    for (const bool stay : {false, true}) {
      const auto strategy = Make(Some());
      fake_.FailWork(nth);
      const Outcome outcome =
          stay ? RunOnGpu(*strategy, MakePass(0), absl::MakeSpan(models))
               : Run(*strategy, MakePass(0));
      EXPECT_TRUE(fake_.failed());
      EXPECT_TRUE(absl::IsInternal(outcome.status)) << outcome.status;
      EXPECT_THAT(std::string(outcome.status.message()),
                  HasSubstr("CUDA device 0"));
    }
  }
}

TEST_F(GidsOnFakeTest, LinesThatDoNotFitEndThePass) {
  const auto strategy = Make(Some());
  fake_.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  const absl::Status status = Run(*strategy, MakePass(0)).status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("70000 bytes of device memory"));
  EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)));
}

TEST_F(GidsOnFakeTest, ReadsThatFailEndThePassAndTheNextIsWhole) {
  const auto strategy = Make(Some(), {.samplers = 2});
  for (const int64_t bad : {0, 7, 150}) {
    hooked_.SetHook(
        [bad](int64_t attempt) { return attempt >= bad ? -EIO : 0; });
    EXPECT_TRUE(absl::IsUnavailable(Run(*strategy, MakePass(0)).status));
    hooked_.SetHook(nullptr);
    EXPECT_EQ(Run(*strategy, MakePass(0)).batches, Expected(MakePass(0)));
  }
}

TEST_F(GidsOnFakeTest, APassTakesNoMoreOfTheGpuThanItsBound) {
  ModelOnFake models[] = {ModelOnFake(fake_), ModelOnFake(fake_)};
  const auto strategy = Make(Some());
  fake_.TakePeakDeviceBytes();
  ASSERT_TRUE(
      RunOnGpu(*strategy, MakePass(0), absl::MakeSpan(models)).status.ok());
  const Pass pass = Measured(*dataset_, MakePass(0));
  // The models of this test hold two batches.
  const int64_t peak = fake_.TakePeakDeviceBytes() -
                       2 * pass.batches.largest.num_inputs() * kRowBytes;
  const auto estimate =
      EstimateMemory(Some(), {.manifest = dataset_->manifest(),
                              .pipeline = {},
                              .batches = pass.batches,
                              .num_batches = 12,
                              .total_batches = 12});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const auto bound = static_cast<int64_t>(estimate->TotalBytes(kRowsOnGpu));
  EXPECT_LE(peak, bound);
  EXPECT_GT(4 * peak, bound);
}

TEST_F(GidsOnFakeTest, LinesOnTheGpuAreNoneOfTheHosts) {
  const MemoryBasis basis = {
      .manifest = dataset_->manifest(),
      .pipeline = {},
      .batches = Measured(*dataset_, MakePass(0)).batches,
      .num_batches = 12,
      .total_batches = 12};
  GidsOptions options = Some();
  const uint64_t on_gpu = EstimateMemory(options, basis)->TotalBytes();
  options.gpu_cache_bytes = 0;
  options.window_cache_bytes = kLines * kRowBytes;
  const auto in_host = EstimateMemory(options, basis);
  EXPECT_EQ(on_gpu + kLines * kRowBytes, in_host->TotalBytes());
  EXPECT_EQ(in_host->TotalBytes(kRowsOnGpu), 0u);
}

TEST_F(GidsTest, LinesForWhichThereIsNoPlaceAreRefused) {
  EXPECT_TRUE(absl::IsFailedPrecondition(New(Some()).status()));
  gpu_ = EmulatedGpu{};
  GidsOptions both = Some();
  both.window_cache_bytes = kRowBytes;
  EXPECT_TRUE(absl::IsInvalidArgument(New(both).status()));
}

}  // namespace
}  // namespace hearth::strategy
