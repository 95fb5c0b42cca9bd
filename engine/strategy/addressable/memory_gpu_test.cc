// `memory` where a GPU, a fake one, samples and gathers.

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/cuda/fake_cuda.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "tests/conformance/batch_fingerprint.h"
#include "tests/conformance/measured_pass.h"
#include "tests/conformance/rows_on_gpu.h"
#include "tests/fixtures/planted_graph.h"

namespace hearth::strategy {
namespace {

using cuda::FakeCuda;
using hearth::testing::ModelOnFake;
using ::testing::HasSubstr;

constexpr PipelineOptions kOnGpu = {
    .samplers = 2, .extractors = 2, .sampling_gpu = 0};

class MemoryGpuTest : public ::testing::TestWithParam<FakeCuda::Work> {
 protected:
  static void SetUpTestSuite() {
    const auto path = hearth::testing::ImportPlantedGraph(
        {}, ::testing::TempDir() + "memory_gpu");
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = store::Dataset::Open(io::FileSystem::Posix(), *path)->release();
    order_ =
        sample::NewShuffledOrder(dataset_->LoadSplit()->train, 3).release();
  }

  absl::StatusOr<std::unique_ptr<Strategy>> TryMake(
      const StrategyOptions& options, const PipelineOptions& pipeline) {
    return NewStrategy(options, pipeline, *dataset_,
                       {.read_queues = *queues_,
                        .clock = Clock::Real(),
                        .scratch_folder = ::testing::TempDir() + "scratch",
                        .gpu = fake_.device(),
                        .gpus = gpus_});
  }

  std::unique_ptr<Strategy> Make(
      const StrategyOptions& options = MemoryOptions{},
      const PipelineOptions& pipeline = kOnGpu) {
    auto strategy = TryMake(options, pipeline);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  }

  static Pass MakePass(uint64_t epoch_key = 0) {
    return hearth::testing::Measured(
        *dataset_, {.order = order_,
                    .sampler = {.fanouts = {5, 3}, .data_seed = 3},
                    .batch_size = 50,
                    .epoch_key = epoch_key});
  }

  // Fingerprints of the batches of a pass whose rows go to the host.
  static std::vector<std::string> RunOnHost(Strategy& strategy,
                                            const Pass& pass) {
    std::vector<std::string> batches;
    PassReport report;
    const absl::Status status = strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          batches.push_back(hearth::testing::Fingerprint(shards.front()));
          return absl::OkStatus();
        },
        std::stop_token(), report);
    EXPECT_TRUE(status.ok()) << status;
    return batches;
  }

  std::vector<std::string> Expected(const Pass& pass) {
    return RunOnHost(*Make(MemoryOptions{}, {}), pass);
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

  // Of float32.
  static int64_t FeatureBytes() {
    return dataset_->manifest().node_types[0].num_nodes * Dim() * 4;
  }

  static int64_t Dim() {
    return dataset_->manifest().node_types[0].features.shape[1];
  }

  static inline store::Dataset* dataset_ = nullptr;
  static inline sample::SeedOrder* order_ = nullptr;
  const std::unique_ptr<io::ReadQueues> queues_ =
      *io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads});
  FakeCuda fake_{GetParam()};
  const std::vector<cuda::Device> gpus_ = {fake_.device()};
  // Their streams outlive the strategies.
  ModelOnFake models_[2] = {ModelOnFake(fake_), ModelOnFake(fake_)};
};

TEST_P(MemoryGpuTest, GathersRowsForModelsThere) {
  const auto strategy = Make();
  EXPECT_EQ(fake_.registered_bytes(), TopologyBytes() + FeatureBytes());
  for (const uint64_t key : {0, 1}) {
    const Pass pass = MakePass(key);
    std::vector<std::string> batches;
    ASSERT_EQ(RunOnGpu(*strategy, pass, batches), absl::OkStatus());
    EXPECT_EQ(batches, Expected(pass));
    // The next pass may have models elsewhere.
    EXPECT_EQ(RunOnHost(*strategy, pass), batches);
  }
  strategy->Rest();
  EXPECT_EQ(fake_.device_bytes(), 0);
  std::vector<std::string> batches;
  ASSERT_EQ(RunOnGpu(*strategy, MakePass(), batches), absl::OkStatus());
}

TEST_P(MemoryGpuTest, TakesNoMoreOfTheGpuThanItsBound) {
  const auto strategy = Make();
  fake_.TakePeakDeviceBytes();
  std::vector<std::string> batches;
  const Pass pass = MakePass();
  ASSERT_EQ(RunOnGpu(*strategy, pass, batches), absl::OkStatus());
  const auto bound = static_cast<int64_t>(
      EstimateMemory(MemoryOptions{}, {.manifest = dataset_->manifest(),
                                       .pipeline = kOnGpu,
                                       .batches = pass.batches,
                                       .num_batches = 8,
                                       .total_batches = 8})
          ->TotalBytes(kRowsOnGpu));
  const int64_t peak = fake_.TakePeakDeviceBytes();
  // The models of this test hold two batches.
  EXPECT_LE(peak - 2 * pass.batches.largest.num_inputs() * Dim() * 4, bound);
  EXPECT_GT(4 * peak, bound);
}

TEST_P(MemoryGpuTest, ADeviceThatFailsEndsThePass) {
  int failures = 0;
  for (int64_t nth = 1; nth < 200; nth += nth / 2 + 1) {
    const auto strategy = Make();
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
    const absl::Status status = TryMake(MemoryOptions{}, kOnGpu).status();
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
