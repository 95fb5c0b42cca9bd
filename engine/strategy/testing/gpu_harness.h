#ifndef HEARTH_ENGINE_STRATEGY_TESTING_GPU_HARNESS_H_
#define HEARTH_ENGINE_STRATEGY_TESTING_GPU_HARNESS_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {

/// Base of tests of strategies over the planted graph, with a fake GPU that may
/// sample.
class GpuStrategyTest : public ::testing::Test {
 protected:
  explicit GpuStrategyTest(
      cuda::FakeCuda::Work work = cuda::FakeCuda::Work::kWhenWaitedFor)
      : fake_(work) {}

  static void SetUpTestSuite() {
    const auto path = hearth::testing::ImportPlantedGraph(
        {}, ::testing::TempDir() + "gpu_strategy");
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = store::Dataset::Open(io::FileSystem::Posix(), *path)->release();
    order_ =
        sample::NewShuffledOrder(dataset_->LoadSplit()->train, 3).release();
  }

  absl::StatusOr<std::unique_ptr<Strategy>> New(
      const StrategyOptions& options, const PipelineOptions& pipeline) {
    return NewStrategy(options, pipeline, *dataset_,
                       {.read_queues = *queues_,
                        .clock = Clock::Real(),
                        .scratch_folder = ::testing::TempDir() + "scratch",
                        .gpu = rows_on_,
                        .gpus = gpus_});
  }

  std::unique_ptr<Strategy> Make(const StrategyOptions& options,
                                 const PipelineOptions& pipeline) {
    auto strategy = New(options, pipeline);
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

  /// Runs a pass with rows in host memory and appends the fingerprints of its
  /// batches.
  static absl::Status Run(Strategy& strategy, std::vector<std::string>& batches,
                          const Pass& pass = MakePass()) {
    PassReport report;
    return strategy.Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          batches.push_back(hearth::testing::Fingerprint(shards.front()));
          return absl::OkStatus();
        },
        std::stop_token(), report);
  }

  /// Fingerprints of the batches of `memory` without a GPU.
  std::vector<std::string> Expected(const Pass& pass = MakePass()) {
    std::vector<std::string> batches;
    EXPECT_TRUE(Run(*Make(MemoryOptions{}, {}), batches, pass).ok());
    return batches;
  }

  static MemoryEstimate Estimate(const StrategyOptions& options,
                                 const PipelineOptions& pipeline) {
    return *EstimateMemory(options, {.manifest = dataset_->manifest(),
                                     .pipeline = pipeline,
                                     .batches = MakePass().batches,
                                     .num_batches = 8,
                                     .total_batches = 8});
  }

  static inline store::Dataset* dataset_ = nullptr;
  static inline sample::SeedOrder* order_ = nullptr;
  const std::unique_ptr<io::ReadQueues> queues_ =
      *io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads});
  cuda::FakeCuda fake_;
  const std::vector<cuda::Device> gpus_ = {fake_.device()};
  /// The GPU that keeps rows; none unless a test sets one.
  Gpu rows_on_ = {};
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_TESTING_GPU_HARNESS_H_
