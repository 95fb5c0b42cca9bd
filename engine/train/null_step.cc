#include "engine/train/null_step.h"

#include "absl/strings/str_cat.h"

namespace hearth::train {
namespace {

class NullStep final : public TrainStep {
 public:
  absl::StatusOr<BatchResult> Train(absl::Span<const BatchView> shards,
                                    const StepPosition& position) override {
    return Evaluate(shards);
  }

  absl::StatusOr<BatchResult> Evaluate(
      absl::Span<const BatchView> shards) override {
    const int64_t seeds = NumSeeds(shards);
    return BatchResult{.num_seeds = seeds,
                       .weight = static_cast<double>(seeds)};
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
