#include "engine/model/parallel_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/base/team.h"
#include "engine/model/gradient_sum.h"
#include "engine/model/matrix_product.h"
#include "engine/model/replica.h"
#include "engine/model/step_memory.h"
#include "engine/model/torch_boundary.h"
#include "engine/sample/batch_shape.h"

// A step, in three rounds of the team:
//
//  1. Each trainer computes the gradients of its shard, weighted by the shard's
//     part in the weight of the batch's seeds, into a flat array of its own;
//     those of an empty shard are zero. If one fails, the step ends here, and
//     nothing has changed.
//  2. Each trainer adds up one part of the flat arrays of all trainers, in the
//     order of their ranks, and writes the sum into all of them.
//  3. Each trainer's optimizer takes the step. All began equal, all take the
//     same gradients: they stay equal in every bit.

namespace hearth::model {
namespace {

// One replica and what it computed last.
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
  // All gradients one after the other, and each as a part of it: first those
  // of the shard, then those of the batch.
  at::Tensor flat;
  std::vector<at::Tensor> gradients;
  train::BatchResult result;
};

class ParallelStep final : public train::TrainStep {
 public:
  ParallelStep(const train::TrainOptions& options,
               const train::ModelShape& shape)
      : options_(options),
        shape_(shape),
        trainers_(static_cast<size_t>(shape.trainers)) {}

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(team_,
                            Team::Create(static_cast<int>(trainers_.size())));
    return absl::OkStatus();
  }

  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    double total = 0;
    for (const train::BatchView& shard : shards) total += WeightOf(shard);
    HEARTH_RETURN_IF_ERROR(OnTeam([&](int rank) {
      train::StepPosition place = position;
      place.shard = static_cast<uint64_t>(rank);
      trainers_[rank]->Differentiate(
          shards[rank], place,
          static_cast<float>(WeightOf(shards[rank]) / total));
    }));
    HEARTH_RETURN_IF_ERROR(SumGradients());
    update_ = OnTeam([&](int rank) { trainers_[rank]->Step(); });
    HEARTH_RETURN_IF_ERROR(update_);
    EndTorchStep();
    return Result();
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    HEARTH_RETURN_IF_ERROR(train::ValidateBatch(shards, shape_));
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    HEARTH_RETURN_IF_ERROR(
        OnTeam([&](int rank) { trainers_[rank]->Evaluate(shards[rank]); }));
    EndTorchStep();
    return Result();
  }

  absl::StatusOr<store::TensorMap> Save() override {
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    store::TensorMap state;
    HEARTH_RETURN_IF_ERROR(RunTorch(options_.train_threads, [&] {
      state = trainers_.front()->replica.Save();
      return absl::OkStatus();
    }));
    return state;
  }

  // A state that does not fit one replica fits none, and changes none.
  absl::Status Load(const store::TensorMap& state) override {
    HEARTH_RETURN_IF_ERROR(MakeTrainers());
    return team_->RunMembers([&](int rank) {
      return RunTorch(options_.train_threads,
                      [&] { return trainers_[rank]->replica.Load(state); });
    });
  }

  uint64_t MemoryBytes(const sample::BatchShape& shape) const override {
    return static_cast<uint64_t>(shape_.trainers) *
           StepMemoryBytes(options_, shape_, shape);
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
      exported = trainers_.front()->replica.Export();
      return absl::OkStatus();
    }));
    return exported;
  }

 private:
  // The outcome of the last steps of the optimizers, once the trainers are
  // there; the first call makes them.
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
    return team_->RunMembers([&](int rank) {
      return RunTorch(options_.train_threads, [&] {
        part(rank);
        return absl::OkStatus();
      });
    });
  }

  // All replicas have the same weights of classes.
  double WeightOf(const train::BatchView& shard) const {
    return trainers_.front()->replica.LossWeight(shard);
  }

  absl::Status SumGradients() {
    return team_->RunMembers([&](int rank) {
      SumPart(flats_, rank, static_cast<int>(flats_.size()));
      return absl::OkStatus();
    });
  }

  // That of the whole batch, added up in the order of the shards.
  train::BatchResult Result() const {
    train::BatchResult whole;
    double sum = 0;
    for (const auto& trainer : trainers_) {
      const train::BatchResult& part = trainer->result;
      sum += double{part.loss} * part.weight;
      whole.num_seeds += part.num_seeds;
      whole.weight += part.weight;
      whole.tally.Add(part.tally);
    }
    whole.loss = static_cast<float>(sum / whole.weight);
    return whole;
  }

  const TorchMemory memory_;
  const train::TrainOptions options_;
  const train::ModelShape shape_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::unique_ptr<Team> team_;
  // The trainers' flat arrays, in the order of their ranks.
  std::vector<absl::Span<float>> flats_;
  // The outcome of the last steps of the optimizers.
  absl::Status update_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<train::TrainStep>> NewParallelStep(
    const train::TrainOptions& options, const train::ModelShape& shape) {
  auto step = std::make_unique<ParallelStep>(options, shape);
  HEARTH_RETURN_IF_ERROR(step->Open());
  return step;
}

}  // namespace hearth::model
