// Models on a fake device: FakeCuda, with LibTorch's operators run by the
// processor.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/step/torch_step.h"
#include "engine/model/testing/fake_device.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/labels.h"
#include "engine/store/safetensors.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using StepPtr = std::unique_ptr<train::TrainStep>;

constexpr int64_t kFeatureDim = 9;
constexpr int64_t kWidth = 5;
constexpr int kSteps = 100;

train::ModelShape Shape(store::LabelKind kind) {
  return {.feature_dim = kFeatureDim,
          .label_kind = kind,
          .label_width = kWidth,
          .num_layers = 2};
}

std::vector<SyntheticBatch> Batches(store::LabelKind kind) {
  std::vector<SyntheticBatch> batches;
  for (const uint64_t seed : {1, 2, 3}) {
    batches.push_back(MakeBatch({.nodes = {12, 25, 40},
                                 .max_neighbors = 4,
                                 .feature_dim = kFeatureDim,
                                 .label_kind = kind,
                                 .label_width = kWidth,
                                 .seed = seed}));
  }
  return batches;
}

train::TrainOptions Options(const train::ModelOptions& model) {
  train::TrainOptions options;
  options.model = model;
  options.dropout = 0.3;
  options.model_seed = 7;
  options.clip_norm = 1;
  options.train_threads = 1;
  return options;
}

std::vector<train::ModelOptions> Models() {
  return {train::SageOptions{.hidden = 8}, train::GcnOptions{.hidden = 8},
          train::GatOptions{.hidden = 8, .heads = 2},
          train::Gatv2Options{.hidden = 8, .heads = 2},
          train::GinOptions{.hidden = 8}};
}

// Losses of training steps on `batches`, and of an evaluation.
std::vector<float> Losses(train::TrainStep& step,
                          const std::vector<SyntheticBatch>& batches,
                          int steps = kSteps, int first = 0) {
  std::vector<float> losses;
  for (int i = first; i < first + steps; ++i) {
    const auto result =
        step.Train({batches[i % batches.size()].View()},
                   {.epoch = 0, .batch = static_cast<uint64_t>(i)});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return losses;
    losses.push_back(result->loss);
  }
  const auto result = step.Evaluate({batches.front().View()});
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) losses.push_back(result->loss);
  return losses;
}

std::vector<float> Losses(train::TrainStep& step, store::LabelKind kind,
                          int steps = kSteps, int first = 0) {
  return Losses(step, Batches(kind), steps, first);
}

// Shape of a graph with several types of several widths.
train::ModelShape TypedShape() {
  return {.feature_dim = 6,
          .label_width = kWidth,
          .num_layers = 2,
          .node_types = {{.name = "author", .feature_dim = 4},
                         {.name = "paper", .feature_dim = 6}},
          .edge_types = {{.name = "cites", .source = 1, .destination = 1},
                         {.name = "writes", .source = 0, .destination = 1},
                         {.name = "written", .source = 1, .destination = 0}},
          .target_type = 1};
}

void ExpectNear(const std::vector<float>& actual,
                const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4 * std::abs(expected[i]))
        << "step " << i;
  }
}

class DeviceStepTest : public ::testing::Test {
 protected:
  StepPtr NewStep(const train::TrainOptions& options, store::LabelKind kind) {
    auto step =
        NewDeviceStep(options, Shape(kind), device_.device(), fake_.device());
    EXPECT_TRUE(step.ok()) << step.status();
    return *std::move(step);
  }

  static StepPtr NewCpuStep(const train::TrainOptions& options,
                            store::LabelKind kind) {
    return *NewTrainStep(options, Shape(kind));
  }

  absl::Status WhyNot(const train::TrainOptions& options,
                      const train::ModelShape& shape) {
    return NewDeviceStep(options, shape, device_.device(), fake_.device())
        .status();
  }

  cuda::FakeCuda fake_;
  FakeDevice device_{fake_.device()};
};

TEST_F(DeviceStepTest, LossesAreTheProcessors) {
  constexpr auto kKind = store::LabelKind::kClasses;
  for (const train::ModelOptions& model : Models()) {
    SCOPED_TRACE(std::string(train::Name(model)));
    const train::TrainOptions options = Options(model);
    ExpectNear(Losses(*NewStep(options, kKind), kKind),
               Losses(*NewCpuStep(options, kKind), kKind));
  }
}

TEST_F(DeviceStepTest, LossesOfAllKindsOfLabelsAreTheProcessors) {
  for (const auto kind :
       {store::LabelKind::kMultiLabel, store::LabelKind::kTargets}) {
    const train::TrainOptions options =
        Options(train::SageOptions{.hidden = 8});
    ExpectNear(Losses(*NewStep(options, kind), kind),
               Losses(*NewCpuStep(options, kind), kind));
  }
}

TEST_F(DeviceStepTest, LossesWeightedByClassesAreTheProcessors) {
  for (const auto kind :
       {store::LabelKind::kClasses, store::LabelKind::kMultiLabel}) {
    train::TrainOptions options = Options(train::SageOptions{.hidden = 8});
    options.class_weights = train::ClassWeights{.values = {0.1, 20, 1, 1, 5}};
    ExpectNear(Losses(*NewStep(options, kind), kind),
               Losses(*NewCpuStep(options, kind), kind));
  }
}

TEST_F(DeviceStepTest, LossesOfModelsOfSeveralTypesAreTheProcessors) {
  const TypedGraph graph = MakeTypedGraph(TypedShape(), 60, 40, 3);
  std::vector<SyntheticBatch> batches;
  batches.push_back(WholeNeighborhood(graph, TargetNodes(graph)));
  for (const train::ModelOptions& model : std::vector<train::ModelOptions>{
           train::RgcnOptions{.hidden = 8, .bases = 2},
           train::RsageOptions{.hidden = 8},
           train::RgatOptions{.hidden = 8, .heads = 2}}) {
    SCOPED_TRACE(std::string(train::Name(model)));
    const train::TrainOptions options = Options(model);
    const auto step =
        NewDeviceStep(options, graph.shape, device_.device(), fake_.device());
    ASSERT_TRUE(step.ok()) << step.status();
    ExpectNear(Losses(**step, batches),
               Losses(**NewTrainStep(options, graph.shape), batches));
  }
}

TEST_F(DeviceStepTest, AllOptimizersDoWhatTheProcessorsDo) {
  constexpr auto kKind = store::LabelKind::kClasses;
  for (const train::OptimizerOptions& optimizer :
       std::vector<train::OptimizerOptions>{
           train::AdamWOptions{},
           train::SgdOptions{.learning_rate = 0.1, .momentum = 0.9}}) {
    train::TrainOptions options = Options(train::GcnOptions{.hidden = 8});
    options.optimizer = optimizer;
    ExpectNear(Losses(*NewStep(options, kKind), kKind),
               Losses(*NewCpuStep(options, kKind), kKind));
  }
}

TEST_F(DeviceStepTest, RepeatsBitForBit) {
  constexpr auto kKind = store::LabelKind::kClasses;
  const train::TrainOptions options =
      Options(train::Gatv2Options{.hidden = 8, .heads = 2});
  EXPECT_EQ(Losses(*NewStep(options, kKind), kKind, 20),
            Losses(*NewStep(options, kKind), kKind, 20));
}

TEST_F(DeviceStepTest, ResultsMayBeAwaitedLater) {
  constexpr auto kKind = store::LabelKind::kClasses;
  for (const train::ModelOptions& model : Models()) {
    SCOPED_TRACE(std::string(train::Name(model)));
    train::TrainOptions options = Options(model);
    options.clip_norm = 0;  // The norm is computed here, so waits.
    const std::vector<float> expected =
        Losses(*NewStep(options, kKind), kKind, /*steps=*/6);
    const StepPtr step = NewStep(options, kKind);
    ASSERT_GT(step->MostPending(), 0);
    std::deque<train::AwaitResult> pending;
    std::vector<float> losses;
    const auto settle = [&](size_t most) {
      for (; pending.size() > most; pending.pop_front()) {
        const auto result = pending.front()();
        ASSERT_TRUE(result.ok()) << result.status();
        losses.push_back(result->loss);
      }
    };
    for (uint64_t i = 0; i < 6; ++i) {
      // Batches are destroyed as soon as their step has begun.
      std::vector<SyntheticBatch> batches = Batches(kKind);
      SyntheticBatch& batch = batches[i % batches.size()];
      auto result = step->BeginTrain({batch.View()}, {.epoch = 0, .batch = i});
      ASSERT_TRUE(result.ok()) << result.status();
      pending.push_back(*std::move(result));
      std::fill_n(batch.inputs.get(), kFeatureDim, NAN);
      settle(static_cast<size_t>(step->MostPending()));
    }
    settle(0);
    const auto result = step->Evaluate({Batches(kKind).front().View()});
    ASSERT_TRUE(result.ok()) << result.status();
    losses.push_back(result->loss);
    EXPECT_EQ(losses, expected);
  }
}

// Batches so large that their sizes dominate the memory.
SyntheticShape LargeShape() {
  return {.nodes = {200, 1500, 8000},
          .max_neighbors = 12,
          .feature_dim = 100,
          .label_width = 20,
          .seed = 1};
}

TEST_F(DeviceStepTest, HoldsNoMoreOfTheDeviceThanItsBound) {
  train::ModelShape shape = Shape(store::LabelKind::kClasses);
  shape.feature_dim = LargeShape().feature_dim;
  shape.label_width = LargeShape().label_width;
  const SyntheticBatch large = MakeBatch(LargeShape());
  for (const train::ModelOptions& model : std::vector<train::ModelOptions>{
           train::SageOptions{.hidden = 128}, train::GcnOptions{.hidden = 128},
           train::GatOptions{.hidden = 128, .heads = 4},
           train::Gatv2Options{.hidden = 128, .heads = 4},
           train::GinOptions{.hidden = 128}}) {
    SCOPED_TRACE(std::string(train::Name(model)));
    const auto step =
        NewDeviceStep(Options(model), shape, device_.device(), fake_.device());
    ASSERT_TRUE(step.ok()) << step.status();
    fake_.TakePeakDeviceBytes();
    for (const uint64_t batch : {0, 1}) {
      ASSERT_TRUE(
          (*step)->Train({large.View()}, {.epoch = 0, .batch = batch}).ok());
    }
    const int64_t peak = fake_.TakePeakDeviceBytes();
    // Memory without the constants, which no step on a fake device needs.
    const auto bytes = [&](const sample::BatchShape& batch) {
      return static_cast<int64_t>((*step)->GpuBytes(batch));
    };
    const int64_t bound = bytes(sample::ShapeOf(large.sample)) -
                          bytes({.nodes = {0, 0, 0}, .edges = {0, 0}});
    EXPECT_LE(peak, bound);
    // The bound is not far above the peak.
    EXPECT_GE(3 * peak, bound);
  }
}

// Rows of a batch on the device, copied there by a stream of their own.
class RowsThere final : public train::DeviceRows {
 public:
  // The batch must outlive the object.
  RowsThere(const cuda::Device& device, const SyntheticBatch& batch)
      : device_(device),
        bytes_(batch.sample.input_nodes.size() *
               static_cast<size_t>(batch.feature_dim) * sizeof(float)),
        memory_(*cuda::Memory::Allocate(device, cuda::Memory::Kind::kDevice,
                                        bytes_)),
        event_(*cuda::Event::Create(device)),
        stream_(*cuda::Stream::Create(device)) {
    EXPECT_TRUE(stream_->Copy(memory_.data(), batch.inputs.get(), bytes_).ok());
    EXPECT_TRUE(stream_->Record(*event_).ok());
  }

  absl::Status QueueCopy(void* stream, float* to) const override {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Stream> reader,
                            cuda::Stream::Wrap(device_, stream));
    HEARTH_RETURN_IF_ERROR(reader->WaitFor(*event_));
    return reader->Copy(to, memory_.data(), bytes_);
  }

 private:
  const cuda::Device device_;
  const uint64_t bytes_;
  const cuda::Memory memory_;
  const std::unique_ptr<cuda::Event> event_;
  const std::unique_ptr<cuda::Stream> stream_;
};

TEST_F(DeviceStepTest, RowsMayBeThereAlready) {
  constexpr auto kKind = store::LabelKind::kClasses;
  const train::TrainOptions options = Options(train::SageOptions{.hidden = 8});
  const StepPtr step = NewStep(options, kKind);
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    std::vector<SyntheticBatch> batches = Batches(kKind);
    const SyntheticBatch& batch = batches[static_cast<size_t>(i)];
    const RowsThere rows(fake_.device(), batch);
    train::BatchView view = batch.View();
    view.inputs = nullptr;
    view.device_rows = &rows;
    const auto result =
        step->Train({view}, {.epoch = 0, .batch = static_cast<uint64_t>(i)});
    ASSERT_TRUE(result.ok()) << result.status();
    losses.push_back(result->loss);
    // A model on the processor cannot take them.
    EXPECT_FALSE(NewCpuStep(options, kKind)->Evaluate({view}).ok());
  }
  const std::vector<float> expected =
      Losses(*NewStep(options, kKind), kKind, 3);
  EXPECT_EQ(losses, std::vector<float>(expected.begin(), expected.end() - 1));
}

TEST_F(DeviceStepTest, RowsThatCannotBeCopiedEndTheStep) {
  constexpr auto kKind = store::LabelKind::kClasses;
  const StepPtr step = NewStep(Options(train::SageOptions{.hidden = 8}), kKind);
  const std::vector<SyntheticBatch> batches = Batches(kKind);
  const RowsThere rows(fake_.device(), batches.front());
  train::BatchView view = batches.front().View();
  view.device_rows = &rows;
  // Call 1 is for the tensor.
  fake_.FailCall(2);
  const absl::Status status = step->Evaluate({view}).status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

TEST_F(DeviceStepTest, GoesOnFromWhatWasSaved) {
  constexpr auto kKind = store::LabelKind::kClasses;
  const train::TrainOptions options = Options(train::SageOptions{.hidden = 8});
  const StepPtr step = NewStep(options, kKind);
  Losses(*step, kKind, 5);
  const auto state = step->Save();
  ASSERT_TRUE(state.ok()) << state.status();
  const StepPtr other = NewStep(options, kKind);
  ASSERT_TRUE(other->Load(*state).ok());
  EXPECT_EQ(Losses(*other, kKind, 5, 5), Losses(*step, kKind, 5, 5));
  // The processor continues to the same result.
  const StepPtr cpu = NewCpuStep(options, kKind);
  const StepPtr third = NewStep(options, kKind);
  ASSERT_TRUE(cpu->Load(*state).ok());
  ASSERT_TRUE(third->Load(*state).ok());
  ExpectNear(Losses(*third, kKind, 20, 5), Losses(*cpu, kKind, 20, 5));
}

TEST_F(DeviceStepTest, BeginsAndExportsAsTheProcessor) {
  constexpr auto kKind = store::LabelKind::kClasses;
  for (const train::ModelOptions& model : Models()) {
    const train::TrainOptions options = Options(model);
    const auto exported = NewStep(options, kKind)->Export();
    const auto expected = NewCpuStep(options, kKind)->Export();
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(exported->metadata, expected->metadata);
    ASSERT_EQ(exported->tensors.size(), expected->tensors.size());
    for (const auto& [name, tensor] : expected->tensors) {
      EXPECT_EQ(exported->tensors.at(name).data, tensor.data) << name;
    }
  }
}

// One use of a model on a device that may fail.
struct Attempt {
  absl::Status status;
  // Whether the fake had failed by then; later failures, while memory is freed,
  // are reported to nobody.
  bool failed;
};

class DeviceFaultTest : public ::testing::Test {
 protected:
  Attempt Try(const std::function<void()>& fault) {
    const FakeDevice device(fake_.device());
    fault();
    const auto step = NewDeviceStep(
        Options(train::GatOptions{.hidden = 2, .heads = 1}),
        Shape(store::LabelKind::kClasses), device.device(), fake_.device());
    const absl::Status status = step.ok() ? Use(**step) : step.status();
    return {status, fake_.failed()};
  }

  absl::Status Use(train::TrainStep& step) {
    HEARTH_RETURN_IF_ERROR(
        step.Train({batch_.View()}, {.epoch = 0, .batch = 0}).status());
    HEARTH_RETURN_IF_ERROR(step.Evaluate({batch_.View()}).status());
    HEARTH_ASSIGN_OR_RETURN(const store::TensorMap state, step.Save());
    HEARTH_RETURN_IF_ERROR(step.Load(state));
    return step.Export().status();
  }

  // Fails the 1st, 2nd ... call, or piece of work, of a step.
  void ExpectErrors(const std::function<void(int64_t)>& fault) {
    int64_t nth = 1;
    for (bool failed = true; failed; ++nth) {
      const Attempt attempt = Try([&] { fault(nth); });
      ASSERT_EQ(fake_.device_bytes(), 0) << nth;
      failed = attempt.failed;
      ASSERT_EQ(attempt.status.ok(), !failed) << nth << ": " << attempt.status;
    }
    EXPECT_GT(nth, 50);
    fault(0);
    const Attempt attempt = Try([] {});
    EXPECT_TRUE(attempt.status.ok()) << attempt.status;
  }

  cuda::FakeCuda fake_;
  const SyntheticBatch batch_ =
      std::move(Batches(store::LabelKind::kClasses).front());
};

TEST_F(DeviceFaultTest, EveryCallMayFail) {
  ExpectErrors([&](int64_t nth) { fake_.FailCall(nth); });
}

TEST_F(DeviceFaultTest, EveryCallMayBeShortOfMemory) {
  ExpectErrors(
      [&](int64_t nth) { fake_.FailCall(nth, HEARTH_CUDA_OUT_OF_MEMORY); });
}

TEST_F(DeviceFaultTest, AllWorkMayFail) {
  ExpectErrors([&](int64_t nth) { fake_.FailWork(nth); });
}

TEST_F(DeviceStepTest, MemoryThatIsNotThereIsResourceExhausted) {
  const StepPtr step = NewStep(Options(train::SageOptions{.hidden = 8}),
                               store::LabelKind::kClasses);
  fake_.FailCall(1, HEARTH_CUDA_OUT_OF_MEMORY);
  // The first call creates the model.
  const absl::Status status = step->Save().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(DeviceStepTest, RefusesWhatIsNotThere) {
  const train::ModelShape shape = Shape(store::LabelKind::kClasses);
  const train::TrainOptions options = Options(train::SageOptions{.hidden = 8});
  train::ModelShape several = shape;
  several.trainers = 2;
  EXPECT_TRUE(absl::IsUnimplemented(WhyNot(options, several)));
  train::TrainOptions rounded = options;
  rounded.precision = train::Precision::kBfloat16;
  EXPECT_TRUE(absl::IsUnimplemented(WhyNot(rounded, shape)));
}

}  // namespace
}  // namespace hearth::model
