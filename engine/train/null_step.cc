#include "engine/train/null_step.h"

#include "absl/strings/str_cat.h"

namespace hearth::train {
namespace {

class NullStep final : public TrainStep {
 public:
  absl::StatusOr<BatchResult> Train(const BatchView& batch,
                                    const StepPosition& position) override {
    return Evaluate(batch);
  }

  absl::StatusOr<BatchResult> Evaluate(const BatchView& batch) override {
    return BatchResult{.num_seeds = batch.sample.num_seeds};
  }

  absl::StatusOr<store::TensorMap> Save() override {
    return store::TensorMap();
  }

  absl::Status Load(const store::TensorMap& state) override {
    if (state.empty()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("unexpected tensor ", state.begin()->first));
  }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors none;
    none.metadata["config"] = R"({"format":"hearth-model-1","model":"none"})";
    return none;
  }
};

}  // namespace

std::unique_ptr<TrainStep> NewNullStep() {
  return std::make_unique<NullStep>();
}

}  // namespace hearth::train
