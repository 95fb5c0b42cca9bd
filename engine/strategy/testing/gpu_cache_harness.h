#ifndef HEARTH_ENGINE_STRATEGY_TESTING_GPU_CACHE_HARNESS_H_
#define HEARTH_ENGINE_STRATEGY_TESTING_GPU_CACHE_HARNESS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::strategy {

/// Where the rows of a GPU cache are, and when a fake GPU does its work.
enum class GpuPlace { kEmulated, kFakeAtOnce, kFakeWhenWaitedFor };

inline constexpr GpuPlace kGpuPlaces[] = {
    GpuPlace::kEmulated, GpuPlace::kFakeAtOnce, GpuPlace::kFakeWhenWaitedFor};

inline std::string GpuPlaceName(
    const ::testing::TestParamInfo<GpuPlace>& info) {
  constexpr const char* kNames[] = {"Emulated", "FakeAtOnce",
                                    "FakeWhenWaitedFor"};
  return kNames[static_cast<int>(info.param)];
}

/// Tests of a GPU cache in any place. `Base` makes strategies with its member
/// `gpu_`.
template <typename Base>
class GpuCacheTest : public Base,
                     public ::testing::WithParamInterface<GpuPlace> {
 protected:
  GpuCacheTest() {
    if (GetParam() == GpuPlace::kEmulated) {
      this->gpu_ = EmulatedGpu{};
      return;
    }
    fake_ = std::make_unique<cuda::FakeCuda>(
        GetParam() == GpuPlace::kFakeAtOnce
            ? cuda::FakeCuda::Work::kAtOnce
            : cuda::FakeCuda::Work::kWhenWaitedFor);
    this->gpu_ = fake_->device();
  }

  // Null for an EmulatedGpu.
  std::unique_ptr<cuda::FakeCuda> fake_;
};

/// Tests of a GPU cache on a fake GPU.
template <typename Base>
class FakeGpuCacheTest : public Base {
 protected:
  FakeGpuCacheTest() { this->gpu_ = fake_.device(); }

  cuda::FakeCuda fake_;
};

/// The shape of the batch of `pass` with the most inputs.
inline sample::BatchShape LargestBatch(Strategy& strategy, const Pass& pass) {
  sample::BatchShape largest;
  PassReport report;
  const absl::Status status = strategy.Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) {
        const sample::BatchShape shape = sample::ShapeOf(shards.front().sample);
        if (largest.nodes.empty() ||
            shape.num_inputs() > largest.num_inputs()) {
          largest = shape;
        }
        return absl::OkStatus();
      },
      {}, report);
  EXPECT_TRUE(status.ok()) << status;
  return largest;
}

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_TESTING_GPU_CACHE_HARNESS_H_
