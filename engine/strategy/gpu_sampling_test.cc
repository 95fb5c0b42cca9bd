// Strategies whose batches a fake GPU samples, beyond the suites that all
// strategies share: their memory by place, and a device that fails.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/testing/gpu_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {
namespace {

using ::testing::HasSubstr;

constexpr MemoryPlace kOnGpu = {.gpu = 0};
constexpr PipelineOptions kSampled = {
    .samplers = 2, .extractors = 1, .sampling_gpu = 0};

class GpuSamplingTest : public GpuStrategyTest {
 protected:
  static uint64_t BytesOf(const MemoryEstimate& estimate,
                          const std::string& owner) {
    for (const MemoryShare& share : estimate.shares) {
      if (share.owner == owner && share.place == MemoryPlace()) {
        return share.bytes;
      }
    }
    return 0;
  }
};

TEST_F(GpuSamplingTest, HoldsNoMoreThanTheEstimateAndGivesItBack) {
  for (const StrategyOptions& options :
       {StrategyOptions(MemoryOptions{}), StrategyOptions(MmapOptions{})}) {
    const auto strategy = Make(options, kSampled);
    const int64_t registered = fake_.registered_bytes();
    const store::Manifest& manifest = dataset_->manifest();
    EXPECT_EQ(registered,
              static_cast<int64_t>((manifest.node_types[0].num_nodes + 1) * 8 +
                                   manifest.edge_types[0].num_edges * 4));
    EXPECT_EQ(fake_.device_bytes(), 0);
    std::vector<std::string> batches;
    fake_.TakePeakDeviceBytes();
    ASSERT_TRUE(Run(*strategy, batches).ok());
    EXPECT_EQ(batches, Expected());
    const auto bound =
        static_cast<int64_t>(Estimate(options, kSampled).TotalBytes(kOnGpu));
    // One sampler may have taken all batches.
    EXPECT_GT(fake_.device_bytes(), bound / 3 / kSampled.samplers);
    EXPECT_LE(fake_.TakePeakDeviceBytes(), bound);
    strategy->Rest();
    EXPECT_EQ(fake_.device_bytes(), 0);
    EXPECT_EQ(fake_.registered_bytes(), registered);
    batches.clear();
    ASSERT_TRUE(Run(*strategy, batches).ok());
    EXPECT_EQ(batches, Expected());
  }
}

TEST_F(GpuSamplingTest, TheEstimateHasTheTopologyInMemoryAndNoSamplersThere) {
  const uint64_t arrays =
      dataset_->manifest().edge_types[0].indptr.file_size_bytes +
      dataset_->manifest().edge_types[0].indices.file_size_bytes;
  for (const StrategyOptions& options :
       {StrategyOptions(MemoryOptions{}), StrategyOptions(MmapOptions{}),
        StrategyOptions(GnndriveOptions{}), StrategyOptions(GidsOptions{})}) {
    SCOPED_TRACE(Name(options));
    const MemoryEstimate on_host = Estimate(options, {.samplers = 2});
    const MemoryEstimate on_gpu = Estimate(options, kSampled);
    EXPECT_EQ(on_host.TotalBytes(kOnGpu), 0u);
    EXPECT_GT(on_gpu.TotalBytes(kOnGpu), 0u);
    EXPECT_EQ(BytesOf(on_gpu, "topology"), arrays);
    EXPECT_GT(BytesOf(on_host, "samplers"), 0u);
    EXPECT_EQ(BytesOf(on_gpu, "samplers"), 0u);
    EXPECT_EQ(BytesOf(on_gpu, "batches"), BytesOf(on_host, "batches"));
  }
}

TEST_F(GpuSamplingTest, ADeviceThatFailsEndsThePassAndNothingElse) {
  const std::vector<std::string> expected = Expected();
  const auto strategy = Make(MmapOptions{}, kSampled);
  int failures = 0;
  for (int64_t call = 1;; call += call / 2 + 1) {
    fake_.FailCall(call);
    std::vector<std::string> batches;
    const absl::Status status = Run(*strategy, batches);
    const bool failed = fake_.failed();
    fake_.FailCall(0);
    if (!failed) break;
    ++failures;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << call << status;
    batches.clear();
    EXPECT_TRUE(Run(*strategy, batches).ok());
    EXPECT_EQ(batches, expected);
  }
  EXPECT_GT(failures, 5);
}

TEST_F(GpuSamplingTest, SaysWhyNot) {
  const absl::Status beforehand = New(GinexOptions{}, kSampled).status();
  EXPECT_TRUE(absl::IsInvalidArgument(beforehand)) << beforehand;
  EXPECT_THAT(std::string(beforehand.message()), HasSubstr("sample_on"));
  PipelineOptions other = kSampled;
  other.sampling_gpu = 1;
  const absl::Status absent = New(MemoryOptions{}, other).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(absent)) << absent;
  EXPECT_THAT(std::string(absent.message()), HasSubstr("no cuda:1"));
  fake_.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  EXPECT_TRUE(
      absl::IsResourceExhausted(New(MemoryOptions{}, kSampled).status()));
}

}  // namespace
}  // namespace hearth::strategy
