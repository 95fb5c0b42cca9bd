#include "engine/job/run/train_run.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/model_trainer.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_job.h"
#include "engine/strategy/kinds.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::job {

namespace {

TEST(FirstAfterLongestGapTest, GoesOnWhereThoseBehindMeetTheOthersSoonest) {
  EXPECT_EQ(FirstAfterLongestGap({0}, 1), 0);
  EXPECT_EQ(FirstAfterLongestGap({3}, 5), 3);
  // Start at 1: 2, 3 and 4 meet before all continue to 7.
  EXPECT_EQ(FirstAfterLongestGap({1, 4, 7}, 20), 1);
  // A new job at epoch 0 of 5 waits for the jobs at 3, which come round to it.
  EXPECT_EQ(FirstAfterLongestGap({0, 3}, 5), 3);
  EXPECT_EQ(FirstAfterLongestGap({0, 3}, 100), 0);
  EXPECT_EQ(FirstAfterLongestGap({0, 1}, 9), 0);
  EXPECT_EQ(FirstAfterLongestGap({0, 8}, 9), 8);
  // Of equal gaps, the one that ends first is chosen.
  EXPECT_EQ(FirstAfterLongestGap({0, 5}, 10), 0);
}

}  // namespace

namespace {

class StoppedJobTest : public JobTest {
 protected:
  // Runs a job whose stop is seen by the job alone: batches go on to come.
  absl::StatusOr<TrainReport> RunUntilStopped(const TrainJobOptions& options,
                                              RecordingObserver& observer,
                                              std::stop_token stop) {
    const std::unique_ptr<MemorySampler> memory = NewMemorySampler();
    const JobEnvironment environment = Environment();
    const auto metrics = NewTrainMetrics(*registry_, options.name, "memory");
    HEARTH_RETURN_IF_ERROR(
        environment.files.CreateDirectory(options.directory));
    const ModelTrainer::Job job = {.environment = environment,
                                   .options = options,
                                   .observer = observer,
                                   .metrics = *metrics,
                                   .memory = *memory};
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<BatchSource> source,
                            BatchSource::Open(environment,
                                              {.data = options.data,
                                               .pipeline = options.pipeline,
                                               .folder = options.directory},
                                              observer, std::stop_token()));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<ModelTrainer> trainer,
        ModelTrainer::Make(job, source->dataset(), source->passes()));
    return TrainAlone(environment, *source,
                      {.options = options,
                       .observer = observer,
                       .metrics = *metrics,
                       .member = *trainer,
                       .stop = std::move(stop),
                       .begin_seconds = 0});
  }
};

TEST_F(StoppedJobTest, EveryBatchIsTrainedAndCountedOnce) {
  const TrainJobOptions options = Options("job");
  std::stop_source stop;
  RecordingObserver observer;
  observer.act_at = 3;
  observer.act = [&] { stop.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(
      RunUntilStopped(options, observer, stop.get_token()).status()));
  EXPECT_EQ(observer.training_batches, 3);
  const auto metrics = NewTrainMetrics(*registry_, "job", "memory");
  const auto resumed =
      RunTrainJob(Environment(), options, observer, *metrics, {});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_EQ(observer.epochs.size(), 4u);
  for (const EpochReport& epoch : observer.epochs) {
    EXPECT_EQ(epoch.training.batches, 6);
  }
  EXPECT_EQ(observer.training_batches, 4 * 6);
}

}  // namespace

// Tests of rows that a strategy leaves on the GPU: it does if all jobs that
// share a pass train there, and only then.

namespace {

using Shards = absl::Span<const train::BatchView>;

// An emulated GPU without kernels; its stream for models outlives all users.
struct Gpu {
  Gpu() { EXPECT_EQ(cuda::FakeCuda::table().stream_create(0, &native), 0); }
  ~Gpu() { (void)cuda::FakeCuda::table().stream_destroy(native); }

  cuda::FakeCuda fake;
  HearthCudaStream* native = nullptr;
  // Number of batches by where models on the GPU found their rows.
  std::atomic<int64_t> there = 0;
  std::atomic<int64_t> elsewhere = 0;
};

// A model on the GPU.
class StepOnGpu final : public LinearStep {
 public:
  StepOnGpu(const train::ModelShape& shape, Gpu& gpu)
      : LinearStep(shape), gpu_(gpu) {}

  absl::StatusOr<train::BatchResult> Train(
      Shards shards, const train::StepPosition& position) override {
    HEARTH_ASSIGN_OR_RETURN(const train::BatchView view, OnHost(shards));
    return LinearStep::Train({view}, position);
  }

  absl::StatusOr<train::BatchResult> Evaluate(Shards shards) override {
    HEARTH_ASSIGN_OR_RETURN(const train::BatchView view, OnHost(shards));
    return LinearStep::Evaluate({view});
  }

 private:
  absl::StatusOr<train::BatchView> OnHost(Shards shards) {
    train::BatchView view = shards.front();
    if (view.device_rows == nullptr) {
      ++gpu_.elsewhere;
      return view;
    }
    ++gpu_.there;
    rows_.resize(view.sample.input_nodes.size() *
                 static_cast<size_t>(view.feature_dim));
    const uint64_t bytes = rows_.size() * sizeof(float);
    HEARTH_ASSIGN_OR_RETURN(
        const cuda::Memory inputs,
        cuda::Memory::Allocate(gpu_.fake.device(), cuda::Memory::Kind::kDevice,
                               bytes));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<cuda::Stream> stream,
        cuda::Stream::Wrap(gpu_.fake.device(), gpu_.native));
    HEARTH_RETURN_IF_ERROR(view.device_rows->QueueCopy(
        gpu_.native, reinterpret_cast<float*>(inputs.data())));
    HEARTH_RETURN_IF_ERROR(stream->Copy(rows_.data(), inputs.data(), bytes));
    HEARTH_RETURN_IF_ERROR(stream->Wait());
    view.inputs = rows_.data();
    return view;
  }

  Gpu& gpu_;
  std::vector<float> rows_;
};

// The GPU outlives warm strategies.
class DeviceRowsTest : public Gpu, public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    new_train_step_ = [this](const train::TrainOptions& options,
                             const train::ModelShape& shape)
        -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
      if (options.gpu.has_value()) {
        return std::make_unique<StepOnGpu>(shape, *this);
      }
      return std::make_unique<LinearStep>(shape);
    };
    shared_passes_ = std::make_unique<SharedPassGroups>(SharedPassOptions(),
                                                        registry_.get());
  }

  TrainJobOptions OptionsOn(std::optional<int> gpu, const std::string& name) {
    TrainJobOptions options = Options(name);
    options.name = name;
    options.train.gpu = gpu;
    options.data.epochs = 2;
    options.data.strategy = strategy::DiskgnnOptions{.cpu_cache_bytes = 4000,
                                                     .gpu_cache_bytes = 4000};
    return options;
  }

  // Runs jobs at the same time, in one group if there are several; returns
  // their digests.
  std::vector<std::string> RunAll(std::vector<TrainJobOptions> jobs) {
    there = 0;
    elsewhere = 0;
    JobEnvironment environment = Environment();
    environment.gpu = fake.device();
    std::vector<std::string> digests(jobs.size());
    std::vector<std::jthread> threads;
    for (TrainJobOptions& job : jobs) {
      if (jobs.size() == 1) break;
      job.sharing_key = "all";
      shared_passes_->Expect({.job = job.name,
                              .key = job.sharing_key,
                              .epoch = job.data.EpochOfBatches(0),
                              .join = job.join});
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      threads.emplace_back([&, i] {
        RecordingObserver observer;
        const auto metrics =
            NewTrainMetrics(*registry_, jobs[i].name, "diskgnn");
        const auto report =
            RunTrainJob(environment, jobs[i], observer, *metrics, {});
        shared_passes_->Forget(jobs[i].name);
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_EQ(report->peers.jobs.size(), jobs.size() - 1);
        digests[i] = report->loss_digest +
                     std::to_string(report->test_metric.value_or(0));
      });
    }
    threads.clear();
    return digests;
  }
};

TEST_F(DeviceRowsTest, StayWhereTheModelTrains) {
  const std::string expected = RunAll({OptionsOn(std::nullopt, "cpu")}).front();
  EXPECT_EQ(there + elsewhere, 0);
  EXPECT_EQ(RunAll({OptionsOn(0, "gpu")}).front(), expected);
  // 6 training batches in each epoch, and batches of validation and test.
  EXPECT_GT(there, 2 * 6 + 2);
  EXPECT_EQ(elsewhere, 0);
  // Rows are not kept on GPU 1.
  EXPECT_EQ(RunAll({OptionsOn(1, "other")}).front(), expected);
  EXPECT_EQ(there, 0);
  EXPECT_GT(elsewhere, 2 * 6 + 2);
}

TEST_F(DeviceRowsTest, StayForSeveralModels) {
  const std::string expected = RunAll({OptionsOn(std::nullopt, "cpu")}).front();
  for (const std::string& digest :
       RunAll({OptionsOn(0, "a"), OptionsOn(0, "b"), OptionsOn(0, "c")})) {
    EXPECT_EQ(digest, expected);
  }
  EXPECT_GT(there, 3 * (2 * 6 + 2));
  EXPECT_EQ(elsewhere, 0);
}

TEST_F(DeviceRowsTest, GoToTheHostIfOneModelIsThere) {
  const std::string expected = RunAll({OptionsOn(std::nullopt, "cpu")}).front();
  for (const std::string& digest :
       RunAll({OptionsOn(0, "a"), OptionsOn(std::nullopt, "b")})) {
    EXPECT_EQ(digest, expected);
  }
  EXPECT_EQ(there, 0);
  EXPECT_GT(elsewhere, 2 * 6 + 2);
}

TEST_F(DeviceRowsTest, StayOnceTheModelElsewhereHasLeft) {
  // Both have the same distinct epochs, as jobs of a group do.
  const auto options = [&](std::optional<int> gpu, const std::string& name) {
    TrainJobOptions made = OptionsOn(gpu, name);
    made.data.distinct_epochs = 1;
    return made;
  };
  const std::string expected = RunAll({options(std::nullopt, "cpu")}).front();
  TrainJobOptions shorter = options(std::nullopt, "shorter");
  shorter.data.epochs = 1;
  EXPECT_EQ(RunAll({options(0, "longer"), shorter}).front(), expected);
  EXPECT_GT(there, 6);
  EXPECT_GT(elsewhere, 6);
}

}  // namespace

}  // namespace hearth::job
