// Strategy `memory` with a fake GPU that samples and gathers.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/gpu_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "tests/conformance/test_pass.h"

namespace hearth::strategy {
namespace {

using cuda::FakeCuda;
using hearth::testing::ModelOnFake;
using ::testing::HasSubstr;

constexpr PipelineOptions kOnGpu = {
    .samplers = 2, .extractors = 2, .sampling_gpu = 0};

class MemoryGpuTest : public GpuStrategyTest,
                      public ::testing::WithParamInterface<FakeCuda::Work> {
 protected:
  MemoryGpuTest() : GpuStrategyTest(GetParam()) { rows_on_ = fake_.device(); }

  std::unique_ptr<Strategy> MakeOnGpu() {
    return Make(MemoryOptions{}, kOnGpu);
  }

  static std::vector<std::string> RunOnHost(Strategy& strategy,
                                            const Pass& pass) {
    std::vector<std::string> batches;
    const absl::Status status = Run(strategy, batches, pass);
    EXPECT_TRUE(status.ok()) << status;
    return batches;
  }

  absl::Status RunOnGpu(Strategy& strategy, const Pass& pass,
                        std::vector<std::string>& batches) {
    PassReport report;
    return hearth::testing::RunOnGpu(strategy, pass, absl::MakeSpan(models_),
                                     batches, report);
  }

  static int64_t TopologyBytes() {
    const store::Manifest& manifest = dataset_->manifest();
    return (manifest.node_types[0].num_nodes + 1) * 8 +
           manifest.edge_types[0].num_edges * 4;
  }

  static int64_t FeatureBytes() {
    return dataset_->manifest().node_types[0].num_nodes * RowBytes();
  }

  // Rows are of float32.
  static int64_t RowBytes() {
    return dataset_->manifest().node_types[0].features.shape[1] * 4;
  }

  // The models' streams outlive the strategies.
  ModelOnFake models_[2] = {ModelOnFake(fake_), ModelOnFake(fake_)};
};

TEST_P(MemoryGpuTest, GathersRowsForModelsThere) {
  const auto strategy = MakeOnGpu();
  EXPECT_EQ(fake_.registered_bytes(), TopologyBytes() + FeatureBytes());
  for (const uint64_t key : {0, 1}) {
    const Pass pass = MakePass(key);
    std::vector<std::string> batches;
    ASSERT_EQ(RunOnGpu(*strategy, pass, batches), absl::OkStatus());
    EXPECT_EQ(batches, Expected(pass));
    // Passes for models elsewhere have their rows in host memory.
    EXPECT_EQ(RunOnHost(*strategy, pass), batches);
  }
  strategy->Rest();
  EXPECT_EQ(fake_.device_bytes(), 0);
  std::vector<std::string> batches;
  ASSERT_EQ(RunOnGpu(*strategy, MakePass(), batches), absl::OkStatus());
}

TEST_P(MemoryGpuTest, TakesNoMoreOfTheGpuThanItsBound) {
  const auto strategy = MakeOnGpu();
  fake_.TakePeakDeviceBytes();
  std::vector<std::string> batches;
  const Pass pass = MakePass();
  ASSERT_EQ(RunOnGpu(*strategy, pass, batches), absl::OkStatus());
  const auto bound = static_cast<int64_t>(
      Estimate(MemoryOptions{}, kOnGpu).TotalBytes(kRowsOnGpu));
  const int64_t peak = fake_.TakePeakDeviceBytes();
  // The models of this test hold two batches.
  EXPECT_LE(peak - 2 * pass.batches.largest.num_inputs() * RowBytes(), bound);
  EXPECT_GT(4 * peak, bound);
}

TEST_P(MemoryGpuTest, ADeviceThatFailsEndsThePass) {
  int failures = 0;
  for (int64_t nth = 1; nth < 200; nth += nth / 2 + 1) {
    const auto strategy = MakeOnGpu();
    std::vector<std::string> batches;
    fake_.FailWork(nth);
    const absl::Status status = RunOnGpu(*strategy, MakePass(), batches);
    if (!fake_.failed()) break;
    ++failures;
    EXPECT_TRUE(absl::IsInternal(status)) << nth << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA device 0"));
  }
  EXPECT_GT(failures, 3);
}

TEST_P(MemoryGpuTest, MemoryThatCannotBePinnedIsTold) {
  // Two arrays of the topology, and the features.
  for (const int64_t call : {1, 2, 3}) {
    fake_.FailCall(call, HEARTH_CUDA_OUT_OF_MEMORY);
    const absl::Status status = New(MemoryOptions{}, kOnGpu).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << call << status;
    EXPECT_EQ(fake_.registered_bytes(), 0);
  }
}

TEST_P(MemoryGpuTest, OthersKeepTheirRowsOnTheHost) {
  for (const StrategyOptions& options :
       {StrategyOptions(MmapOptions{}), StrategyOptions(MemoryOptions{})}) {
    PipelineOptions pipeline = kOnGpu;
    if (std::holds_alternative<MemoryOptions>(options)) {
      pipeline.sampling_gpu = std::nullopt;
    }
    const auto strategy = Make(options, pipeline);
    EXPECT_LE(fake_.registered_bytes(), TopologyBytes());
    Pass pass = MakePass();
    pass.rows_on_gpu = true;
    EXPECT_EQ(RunOnHost(*strategy, pass), Expected(pass));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Work, MemoryGpuTest,
    ::testing::Values(FakeCuda::Work::kAtOnce, FakeCuda::Work::kWhenWaitedFor),
    [](const ::testing::TestParamInfo<FakeCuda::Work>& info) {
      return info.param == FakeCuda::Work::kAtOnce ? "AtOnce" : "WhenWaitedFor";
    });

}  // namespace
}  // namespace hearth::strategy
