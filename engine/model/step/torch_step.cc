#include "engine/model/step/torch_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/model/cpu/gradient_sum.h"
#include "engine/model/layers/model_kind.h"
#include "engine/model/layers/step_memory.h"
#include "engine/model/operators/matrix_product.h"
#include "engine/model/runtime/device_streams.h"
#include "engine/model/runtime/torch_boundary.h"
#include "engine/model/step/replica.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/shard_window.h"
#include "engine/store/labels.h"

namespace hearth::model {

namespace {

// Device of a model; on the processor, `kernels` is null.
struct ModelDevice {
  at::Device device = at::kCPU;
  std::shared_ptr<DeviceKernels> kernels = nullptr;
};

// Member of a model, destroyed after all of the model's tensors: returns the
// device memory that LibTorch caches to the device.
struct DeviceMemory {
  at::Device device = at::kCPU;

  ~DeviceMemory() {
    if (device.is_cpu()) return;
    auto* const kept =
        dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    if (kept == nullptr) return;
    // Errors are dropped: a device that fails reports them elsewhere.
    (void)RunTorch(1, [&] {
      kept->emptyCache();
      return absl::OkStatus();
    });
  }
};

absl::Status CheckDeviceModel(const train::TrainOptions& options,
                              const train::ModelShape& shape) {
  if (shape.trainers > 1) {
    return absl::UnimplementedError("trainers: must be 1 on a GPU");
  }
  if (options.precision == train::Precision::kBfloat16) {
    return absl::UnimplementedError("precision: must not be bf16 on a GPU");
  }
  return absl::OkStatus();
}

class TorchStep final : public train::TrainStep {
 public:
  TorchStep(const train::TrainOptions& options, const train::ModelShape& shape,
            const ModelDevice& device)
      : device_memory_{device.device},
        kernels_(device.kernels),
        options_(options),
        threads_(options.train_threads),
        shape_(shape) {}

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_ASSIGN_OR_RETURN(const train::AwaitResult result,
                            BeginTrain(shards, position));
    return result();
  }

  absl::StatusOr<train::AwaitResult> BeginTrain(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_RETURN_IF_ERROR(CheckBatch(shards));
    train::BatchResult result;
    std::shared_ptr<const PendingScalar> loss;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      const Replica::Derivative derivative =
          replica().Differentiate(shards.front(), position, /*weight=*/1);
      replica().Step(derivative.gradients);
      result = derivative.result;
      loss = std::make_shared<PendingScalar>(derivative.loss);
      return absl::OkStatus();
    }));
    EndTorchStep();
    return
        [this, result, loss]() mutable -> absl::StatusOr<train::BatchResult> {
          HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
            result.loss = loss->Get();
            return absl::OkStatus();
          }));
          return result;
        };
  }

  int MostPending() const override {
    return on_device() ? kMostPendingSteps : 0;
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    HEARTH_RETURN_IF_ERROR(CheckBatch(shards));
    train::BatchResult result;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      result = replica().Evaluate(shards.front());
      return absl::OkStatus();
    }));
    EndTorchStep();
    return result;
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::TensorMap state;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      ReleaseStepMemory();
      state = replica().Save();
      return absl::OkStatus();
    }));
    return state;
  }

  absl::Status Load(const store::TensorMap& state) override {
    return RunTorch(threads_, [&] { return replica().Load(state); });
  }

  uint64_t MemoryBytes(const sample::BatchShape& shape) const override {
    return on_device() ? DeviceStepBytes(options_, shape_, shape).host_bytes
                       : StepMemoryBytes(options_, shape_, shape);
  }

  std::optional<uint64_t> BytesInPlace(
      const sample::BatchShape& shape) const override {
    if (on_device()) return std::nullopt;
    return StepBytesInPlace(options_, shape_, shape);
  }

  uint64_t GpuBytes(const sample::BatchShape& shape) const override {
    return on_device() ? DeviceStepBytes(options_, shape_, shape).device_bytes
                       : 0;
  }

  uint64_t KeptBytes() const override {
    return KeptMemoryBytes(options_, shape_);
  }

  uint64_t ParameterBytes() const override {
    return model::ParameterBytes(options_, shape_);
  }

  int64_t TopWidth() const override {
    return on_device() ? 0 : train::TopWidth(options_.model, shape_);
  }

  train::Precision precision() const override {
    return ResolvedPrecision(options_.precision);
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors exported;
    HEARTH_RETURN_IF_ERROR(RunTorch(threads_, [&] {
      ReleaseStepMemory();
      exported = replica().Export();
      return absl::OkStatus();
    }));
    return exported;
  }

 private:
  bool on_device() const { return kernels_ != nullptr; }

  // The replica, created by the first call, which is within RunTorch.
  Replica& replica() {
    if (replica_ == nullptr) {
      replica_ =
          std::make_unique<Replica>(options_, shape_, device_memory_.device);
    }
    return *replica_;
  }

  absl::Status CheckBatch(absl::Span<const train::BatchView> shards) const {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    if (on_device() && shards.front().sample.top.has_value()) {
      return absl::UnimplementedError(
          "history: there are no embeddings of earlier batches on a GPU");
    }
    return absl::OkStatus();
  }

  const TorchMemory memory_;
  const DeviceMemory device_memory_;
  // Null for a model on the processor.
  const std::shared_ptr<DeviceKernels> kernels_;
  const train::TrainOptions options_;
  const int threads_;
  const train::ModelShape shape_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace

absl::Status CheckModel(const train::TrainOptions& options,
                        const train::ModelShape& shape) {
  HEARTH_RETURN_IF_ERROR(shape.Validate());
  HEARTH_RETURN_IF_ERROR(CheckTypes(options.model, shape));
  HEARTH_RETURN_IF_ERROR(
      options.ValidateForLabels(shape.label_kind, shape.label_width));
  if (!HasProducts(options.precision)) {
    return absl::FailedPreconditionError(
        "precision: this processor has no products of bfloat16 (AVX-512)");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewTorchStep(
    const train::TrainOptions& options, const train::ModelShape& shape) {
  return std::make_unique<TorchStep>(options, shape, ModelDevice());
}

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewDeviceStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    const at::Device& device, const cuda::Device& plugin) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  HEARTH_RETURN_IF_ERROR(CheckDeviceModel(options, shape));
  HEARTH_RETURN_IF_ERROR(CheckModel(options, shape));
  train::TrainOptions on_device = options;
  on_device.precision = train::Precision::kFloat32;
  return std::make_unique<TorchStep>(
      on_device, shape,
      ModelDevice{.device = device,
                  .kernels = DeviceKernels::Open(device, plugin)});
}

// Rounds of the thread team in one step:
//
//  1. Each trainer computes the gradients of its shard, weighted by the shard's
//     share of the batch's loss weight, into a flat array of its own; the
//     gradients of an empty shard are zero. If a trainer fails, the step ends
//     here, and nothing has changed.
//  2. Each trainer adds up one part of the flat arrays of all trainers, in the
//     order of their ranks, and writes the sum into all arrays.
//  3. Each trainer's optimizer takes a step. Replicas begin equal and take
//     equal gradients, so they stay equal in every bit.
//
// With other machines, all of them tell each other between rounds 2 and 3 what
// became of the batch, and then add up their sums.

namespace {

// A replica with its last results.
struct Trainer {
  Trainer(const train::TrainOptions& options, const train::ModelShape& shape)
      : replica(options, shape) {
    int64_t size = 0;
    for (const at::Tensor& parameter : replica.parameters()) {
      size += parameter.numel();
    }
    flat = at::zeros({size}, at::kFloat);
    int64_t begin = 0;
    for (const at::Tensor& parameter : replica.parameters()) {
      const int64_t count = parameter.numel();
      gradients.push_back(flat.narrow(0, begin, count).view(parameter.sizes()));
      begin += count;
    }
  }

  void Differentiate(const train::BatchView& shard,
                     const train::StepPosition& position, float weight) {
    result = {};
    if (shard.sample.num_seeds == 0) {
      flat.zero_();
      return;
    }
    Replica::Derivative derivative =
        replica.Differentiate(shard, position, weight);
    result = derivative.result;
    const at::NoGradGuard no_gradients;
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i].copy_(derivative.gradients[i]);
    }
  }

  void Step() { replica.Step(gradients); }

  void Evaluate(const train::BatchView& shard) {
    result = {};
    if (shard.sample.num_seeds > 0) result = replica.Evaluate(shard);
  }

  Replica replica;
  // Flat array of all gradients, and views of each: first of the shard's
  // gradients, then of the batch's.
  at::Tensor flat;
  std::vector<at::Tensor> gradients;
  train::BatchResult result;
};

class ParallelStep final : public train::TrainStep {
 public:
  ParallelStep(const train::TrainOptions& options,
               const train::ModelShape& shape, train::RankGroup* ranks)
      : options_(options),
        shape_(shape),
        ranks_(ranks),
        trainers_(static_cast<size_t>(shape.trainers)) {}

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(
        team_, ThreadTeam::Create(static_cast<int>(trainers_.size())));
    return absl::OkStatus();
  }

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    const absl::Status differentiated = Differentiate(shards, position);
    HEARTH_ASSIGN_OR_RETURN(const train::BatchResult result,
                            ResultOfAll(differentiated, position));
    if (ranks_ != nullptr) {
      HEARTH_RETURN_IF_ERROR(ranks_->Sum(flats_.front()));
      for (const absl::Span<float> flat : absl::MakeSpan(flats_).subspan(1)) {
        std::copy(flats_.front().begin(), flats_.front().end(), flat.begin());
      }
    }
    update_ = OnTeam([&](int rank) { trainers_[rank]->Step(); });
    HEARTH_RETURN_IF_ERROR(update_);
    EndTorchStep();
    return result;
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    absl::Status evaluated = train::ValidateBatch(shards, shape_);
    if (evaluated.ok()) evaluated = MakeTrainers();
    if (evaluated.ok()) {
      evaluated =
          OnTeam([&](int rank) { trainers_[rank]->Evaluate(shards[rank]); });
    }
    EndTorchStep();
    return ResultOfAll(evaluated, /*position=*/{});
  }

  absl::StatusOr<store::TensorMap> Save() override {
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    store::TensorMap state;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      ReleaseStepMemory();
      state = trainers_.front()->replica.Save();
      return absl::OkStatus();
    }));
    return state;
  }

  // A state that does not fit one replica fits none, and changes none.
  absl::Status Load(const store::TensorMap& state) override {
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    return team_->RunWorkers([&](int rank) {
      return RunTorch(options_.train_threads,
                      [&] { return trainers_[rank]->replica.Load(state); });
    });
  }

  uint64_t MemoryBytes(const sample::BatchShape& shape) const override {
    // Other machines send parts of their gradients, and parts of the sums.
    const uint64_t exchanged =
        ranks_ == nullptr ? 0 : 2 * model::ParameterBytes(options_, shape_);
    return static_cast<uint64_t>(shape_.trainers) *
               StepMemoryBytes(options_, shape_, shape) +
           exchanged;
  }

  std::optional<uint64_t> BytesInPlace(
      const sample::BatchShape& shape) const override {
    const auto bytes = StepBytesInPlace(options_, shape_, shape);
    if (!bytes.has_value()) return std::nullopt;
    return static_cast<uint64_t>(shape_.trainers) * *bytes;
  }

  uint64_t KeptBytes() const override {
    return static_cast<uint64_t>(shape_.trainers) *
           KeptMemoryBytes(options_, shape_);
  }

  uint64_t ParameterBytes() const override {
    return model::ParameterBytes(options_, shape_);
  }

  int64_t TopWidth() const override {
    return train::TopWidth(options_.model, shape_);
  }

  train::Precision precision() const override {
    return ResolvedPrecision(options_.precision);
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    store::SafeTensors exported;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      ReleaseStepMemory();
      exported = trainers_.front()->replica.Export();
      return absl::OkStatus();
    }));
    return exported;
  }

 private:
  // Creates the trainers in the first call. Returns the status of the
  // optimizers' last steps.
  absl::Status MakeTrainers() {
    if (!flats_.empty()) return update_;
    HEARTH_RETURN_IF_ERROR(OnTeam([&](int rank) {
      trainers_[rank] = std::make_unique<Trainer>(options_, shape_);
    }));
    for (const auto& trainer : trainers_) {
      flats_.emplace_back(trainer->flat.mutable_data_ptr<float>(),
                          static_cast<size_t>(trainer->flat.numel()));
    }
    return absl::OkStatus();
  }

  absl::Status OnTeam(absl::FunctionRef<void(int rank)> part) {
    return team_->RunWorkers([&](int rank) {
      return RunTorch(options_.train_threads, [&] {
        part(rank);
        return absl::OkStatus();
      });
    });
  }

  // Leaves the sum of the gradients of all shards here in all flat arrays.
  absl::Status Differentiate(absl::Span<const train::BatchView> shards,
                             const train::StepPosition& position) {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    const double total = TotalWeight(shards);
    HEARTH_RETURN_IF_ERROR(OnTeam([&](int rank) {
      train::StepPosition place = position;
      place.shard = static_cast<uint64_t>(shape_.window.first + rank);
      trainers_[rank]->Differentiate(
          shards[rank], place,
          static_cast<float>(WeightOf(shards[rank].labels) / total));
    }));
    return SumGradients();
  }

  // All replicas have the same weights of classes.
  double WeightOf(const store::LabelsView& labels) const {
    return trainers_.front()->replica.LossWeight(labels);
  }

  // Loss weight of the whole batch, summed in the order of its shards.
  double TotalWeight(absl::Span<const train::BatchView> shards) const {
    double total = 0;
    if (!shape_.window.is_part()) {
      for (const train::BatchView& shard : shards) {
        total += WeightOf(shard.labels);
      }
      return total;
    }
    const store::LabelsView& labels = shards.front().batch_labels;
    const int64_t all = shape_.window.all;
    for (int64_t shard = 0; shard < all; ++shard) {
      const int64_t begin = sample::ShardBegin(labels.num_rows, shard, all);
      const int64_t end = sample::ShardBegin(labels.num_rows, shard + 1, all);
      total += WeightOf(labels.Rows(begin, end - begin));
    }
    return total;
  }

  absl::Status SumGradients() {
    return team_->RunWorkers([&](int rank) {
      SumPart(flats_, rank, static_cast<int>(flats_.size()));
      return absl::OkStatus();
    });
  }

  // Result of the whole batch, after `status` of the shards here.
  absl::StatusOr<train::BatchResult> ResultOfAll(
      const absl::Status& status, const train::StepPosition& position) {
    std::vector<train::BatchResult> parts;
    if (status.ok()) {
      for (const auto& trainer : trainers_) parts.push_back(trainer->result);
    }
    if (ranks_ == nullptr) {
      HEARTH_RETURN_IF_ERROR(status);
    } else {
      HEARTH_ASSIGN_OR_RETURN(
          parts, ranks_->Agree(position,
                               status.ok() ? absl::StatusOr<train::BatchResult>(
                                                 Merged(parts))
                                           : status));
    }
    return Merged(parts);
  }

  // The result of several parts of a batch, summed in their order.
  static train::BatchResult Merged(absl::Span<const train::BatchResult> parts) {
    train::BatchResult whole;
    double sum = 0;
    for (const train::BatchResult& part : parts) {
      sum += double{part.loss} * part.weight;
      whole.num_seeds += part.num_seeds;
      whole.weight += part.weight;
      whole.tally.Add(part.tally);
    }
    // Another machine may have all seeds.
    if (whole.num_seeds > 0)
      whole.loss = static_cast<float>(sum / whole.weight);
    return whole;
  }

  const TorchMemory memory_;
  const train::TrainOptions options_;
  const train::ModelShape shape_;
  // Null without other machines.
  train::RankGroup* const ranks_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::unique_ptr<ThreadTeam> team_;
  // Flat arrays of all trainers, in the order of their ranks.
  std::vector<absl::Span<float>> flats_;
  // Status of the optimizers' last steps.
  absl::Status update_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewParallelStep(
    const train::TrainOptions& options, const train::ModelShape& shape,
    train::RankGroup* ranks) {
  auto step = std::make_unique<ParallelStep>(options, shape, ranks);
  HEARTH_RETURN_IF_ERROR(step->Open());
  return step;
}

}  // namespace hearth::model
