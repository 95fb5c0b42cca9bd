#ifndef HEARTH_ENGINE_JOB_RUN_JOB_FIXTURE_H_
#define HEARTH_ENGINE_JOB_RUN_JOB_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/batch_measurement.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_job.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "engine/store/manifest.h"
#include "engine/store/safetensors.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::job {

/// A model small enough to reason about: one weight per feature, moved towards
/// predicting 1 from the mean seed row; its loss depends on the inputs, the
/// weights and the position, so any batch skipped, repeated or reordered shows.
class LinearStep : public train::TrainStep {
 public:
  explicit LinearStep(const train::ModelShape& shape)
      : weights_(static_cast<size_t>(shape.feature_dim), 0.01f) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    const std::vector<float> mean = MeanRow(shards);
    const float error = Predict(mean) - 1;
    for (size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] -= 0.01f * error * mean[i];
    }
    const float noise = 0.001f * static_cast<float>(position.batch + 1) /
                        static_cast<float>(position.epoch + 1);
    return train::BatchResult{.loss = error * error + noise,
                              .num_seeds = train::NumSeeds(shards)};
  }

  // A value in 0 .. 1 that is larger the nearer the prediction is, so that it
  // changes with the epoch.
  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    const float error = std::abs(Predict(MeanRow(shards)) - 1);
    const auto seeds = train::NumSeeds(shards);
    return train::BatchResult{
        .loss = error,
        .num_seeds = seeds,
        .tally = {.num_predictions = seeds,
                  .num_correct = static_cast<int64_t>(
                      std::max(0.0f, 1 - error) * static_cast<float>(seeds))}};
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::Tensor tensor;
    tensor.shape = {static_cast<int64_t>(weights_.size())};
    tensor.data.resize(weights_.size() * sizeof(float));
    std::memcpy(tensor.data.data(), weights_.data(), tensor.data.size());
    return store::TensorMap{{"model.weights", tensor}};
  }

  absl::Status Load(const store::TensorMap& state) override {
    const store::Tensor& tensor = state.at("model.weights");
    std::memcpy(weights_.data(), tensor.data.data(), tensor.data.size());
    return absl::OkStatus();
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors model;
    model.tensors = *Save();
    model.metadata["config"] = "{}";
    return model;
  }

 private:
  static const float* RowOf(const train::BatchView& shard, int64_t node) {
    if (!shard.rows.has_value()) {
      return shard.inputs + node * shard.feature_dim;
    }
    const train::RowsInPlace& rows = *shard.rows;
    const uint32_t address = rows.addresses[node];
    return reinterpret_cast<const float*>(
               address < rows.num_slots ? rows.slots : rows.landed) +
           (address < rows.num_slots ? address : address - rows.num_slots) *
               shard.feature_dim;
  }

  std::vector<float> MeanRow(absl::Span<const train::BatchView> shards) const {
    std::vector<float> mean(weights_.size(), 0);
    const auto seeds = static_cast<float>(train::NumSeeds(shards));
    for (const train::BatchView& shard : shards) {
      for (int64_t seed = 0; seed < shard.sample.num_seeds; ++seed) {
        const float* row = RowOf(shard, seed);
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += row[i] / seeds;
      }
    }
    return mean;
  }

  float Predict(const std::vector<float>& row) const {
    float sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += weights_[i] * row[i];
    return sum;
  }

  std::vector<float> weights_;
};

/// An observer that records all calls, and can act on a training batch.
class RecordingObserver final : public Observer {
 public:
  void OnRunning() override {
    ++running;
    if (on_running) on_running();
  }
  absl::Status OnFirstEpochKey(int64_t key) override {
    first_epoch_key = key;
    if (on_first_epoch_key) on_first_epoch_key();
    return absl::OkStatus();
  }
  void OnProgress(const Progress& progress) override {
    phases.insert(progress.phase);
    if (progress.phase == "training" && ++training_batches == act_at) act();
    if (progress.phase == "validating" && act_in_validation) act();
    if (progress.phase == "testing" && act_in_test) act();
    if (progress.phase == "comparing" &&
        ++comparing_batches == act_at_comparing) {
      act();
    }
  }
  absl::Status OnEpoch(const EpochReport& epoch) override {
    epochs.push_back(epoch);
    return on_epoch ? on_epoch(epoch) : absl::OkStatus();
  }
  void OnDurable() override { ++durable; }
  void OnLog(Severity severity, const std::string& text) override {
    if (severity == Severity::kWarning) warnings.push_back(text);
    log += text + "\n";
  }

  int running = 0;
  std::function<void()> on_running;
  std::optional<int64_t> first_epoch_key;
  std::function<void()> on_first_epoch_key;
  int64_t training_batches = 0;
  int64_t act_at = -1;
  int64_t comparing_batches = 0;
  int64_t act_at_comparing = -1;
  bool act_in_validation = false;
  bool act_in_test = false;
  std::function<void()> act;
  std::function<absl::Status(const EpochReport& epoch)> on_epoch;
  int durable = 0;
  std::vector<EpochReport> epochs;
  std::vector<std::string> warnings;
  std::string log;
  std::set<std::string> phases;
};

/// The report of a job, with all epochs that its runs have reported.
struct WholeReport : TrainReport {
  std::vector<EpochReport> epochs;
};

/// Runs jobs on a planted graph, with a model that needs no torch.
class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    memory_ = std::make_unique<MemoryLedger>(uint64_t{1} << 40);
    warm_strategies_ = std::make_unique<WarmStrategies>(
        io::FileSystem::Posix(), *memory_, root_ + "/scratch");
    batch_measurement_ = std::make_unique<BatchMeasurement>(
        io::FileSystem::Posix(), Clock::Real(), root_ + "/plans");
    plans_ = std::make_unique<plan::PlanStore>(
        io::FileSystem::Posix(), Clock::Real(),
        plan::PlanStore::Options{.folder = root_ + "/plans"});
    Import({});
  }

  // Replaces the dataset.
  void Import(const hearth::testing::PlantedGraph& graph) {
    std::filesystem::remove_all(root_ + "/source");
    std::filesystem::remove_all(root_ + "/dataset");
    const auto path = hearth::testing::ImportPlantedGraph(graph, root_);
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = *path;
  }

  void EditManifest(const std::function<void(store::Manifest&)>& edit) {
    io::FileSystem& files = io::FileSystem::Posix();
    const std::string path = dataset_ + "/manifest.json";
    auto manifest =
        store::ParseManifest(*io::ReadWholeFile(files, path, 1 << 20), path);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    edit(*manifest);
    ASSERT_TRUE(io::WriteFileAtomically(files, path,
                                        store::SerializeManifest(*manifest))
                    .ok());
  }

  TrainJobOptions Options(const std::string& directory) const {
    TrainJobOptions options;
    options.data.dataset_path = dataset_;
    options.data.fanouts = {4, 4};
    options.data.batch_size = 60;  // 360 training nodes: 6 batches an epoch.
    options.data.epochs = 4;
    options.directory = root_ + "/" + directory;
    return options;
  }

  JobEnvironment Environment(io::FileSystem& files = io::FileSystem::Posix()) {
    return {.files = files,
            .read_queues = *read_queues_,
            .clock = Clock::Real(),
            .running_jobs = running_jobs_,
            .memory = *memory_,
            .warm_strategies = *warm_strategies_,
            .batch_measurement = *batch_measurement_,
            .plans = *plans_,
            .new_train_step = new_train_step_,
            .shared_passes = shared_passes_.get()};
  }

  absl::StatusOr<WholeReport> Run(const TrainJobOptions& options,
                                  std::stop_token stop = {}) {
    const auto metrics = NewTrainMetrics(*registry_, "train-1", "memory");
    const JobEnvironment environment = Environment();
    const size_t before = observer_.epochs.size();
    absl::StatusOr<TrainReport> report =
        RunTrainJob(environment, options, observer_, *metrics, std::move(stop));
    // An epoch that is reported again has the same report.
    std::map<uint32_t, EpochReport>& kept = epochs_[options.directory];
    for (size_t i = before; i < observer_.epochs.size(); ++i) {
      kept.try_emplace(observer_.epochs[i].epoch, observer_.epochs[i]);
    }
    if (!report.ok()) return report.status();
    WholeReport whole = {*std::move(report), {}};
    for (const auto& [number, epoch] : kept) whole.epochs.push_back(epoch);
    return whole;
  }

  std::string root_;
  std::string dataset_;
  const std::unique_ptr<io::ReadQueues> read_queues_ =
      *io::ReadQueues::Create();
  RunningJobs running_jobs_;
  std::unique_ptr<MemoryLedger> memory_;
  std::unique_ptr<plan::PlanStore> plans_;
  std::unique_ptr<WarmStrategies> warm_strategies_;
  std::unique_ptr<BatchMeasurement> batch_measurement_;
  std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  // Null: each job runs alone.
  std::unique_ptr<SharedPassGroups> shared_passes_;
  RecordingObserver observer_;
  // Reported epochs of the runs in each directory, by number.
  std::map<std::string, std::map<uint32_t, EpochReport>> epochs_;
  // The shape of the last model made.
  train::ModelShape shape_;
  TrainStepFactory new_train_step_ = [this](const train::TrainOptions&,
                                            const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    shape_ = shape;
    return std::make_unique<LinearStep>(shape);
  };
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_JOB_FIXTURE_H_
