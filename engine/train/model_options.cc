#include "engine/train/model_options.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace hearth::train {

absl::Status ClassWeights::Validate(store::LabelKind kind,
                                    int64_t width) const {
  if (empty()) return absl::OkStatus();
  if (kind == store::LabelKind::kTargets) {
    return absl::InvalidArgumentError(
        absl::StrCat(balanced ? "balanced_classes" : "class_weights.values",
                     ": must be absent: the labels are targets, not classes"));
  }
  if (balanced) {
    if (kind == store::LabelKind::kClasses) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "balanced_classes: must be none, or a weight for each label: a node "
        "may have several of the labels");
  }
  if (std::ssize(values) != width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "class_weights.values: must have an entry for each of the ", width,
        kind == store::LabelKind::kClasses ? " classes" : " labels", ", not ",
        values.size()));
  }
  for (const double value : values) {
    // float32, as in the loss.
    const auto weight = static_cast<float>(value);
    if (std::isfinite(weight) && weight > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "class_weights.values: must be positive numbers, not ", value));
  }
  return absl::OkStatus();
}

std::vector<float> ClassWeights::Resolve(
    absl::Span<const int64_t> class_counts) const {
  if (!balanced) return {values.begin(), values.end()};
  int64_t nodes = 0;
  int64_t classes = 0;
  for (const int64_t count : class_counts) {
    nodes += count;
    classes += count > 0;
  }
  std::vector<float> weights;
  for (const int64_t count : class_counts) {
    weights.push_back(count == 0
                          ? 1.0f
                          : static_cast<float>(static_cast<double>(nodes) /
                                               (static_cast<double>(classes) *
                                                static_cast<double>(count))));
  }
  return weights;
}

namespace {

// Wider layers than this are mistakes: their weights alone would take
// terabytes.
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxLayers = 64;
constexpr int64_t kMaxThreads = 1024;
// Batches number types with 16 bits.
constexpr int64_t kMaxTypes = 1 << 16;

absl::Status InRange(absl::string_view option, int64_t value, int64_t low,
                     int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, "; it must be from ", low, " to ", high));
}

absl::Status FiniteAndNotNegative(absl::string_view option, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, "; it must be finite and not negative"));
}

absl::Status InUnitInterval(absl::string_view option, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", value, "; it must be in [0, 1)"));
}

struct ValidateModel {
  template <typename Model>
  absl::Status operator()(const Model& model) const {
    absl::Status status;
    if constexpr (requires { model.hidden; }) {
      status.Update(InRange("hidden", model.hidden, 1, kMaxWidth));
    }
    if constexpr (requires { model.bases; }) {
      status.Update(InRange("bases", model.bases, 0, kMaxWidth));
    }
    if constexpr (requires { model.heads; }) {
      status.Update(InRange("heads", model.heads, 1, kMaxWidth));
      if (status.ok() && model.hidden % model.heads != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("hidden is ", model.hidden,
                         "; it must be a multiple of heads, ", model.heads));
      }
    }
    return status;
  }
};

struct ValidateOptimizer {
  absl::Status operator()(const AdamOptions& adam) const {
    absl::Status status =
        FiniteAndNotNegative("learning_rate", adam.learning_rate);
    status.Update(FiniteAndNotNegative("weight_decay", adam.weight_decay));
    return status;
  }

  absl::Status operator()(const AdamWOptions& adamw) const {
    absl::Status status =
        FiniteAndNotNegative("learning_rate", adamw.learning_rate);
    status.Update(FiniteAndNotNegative("weight_decay", adamw.weight_decay));
    return status;
  }

  absl::Status operator()(const SgdOptions& sgd) const {
    absl::Status status =
        FiniteAndNotNegative("learning_rate", sgd.learning_rate);
    status.Update(FiniteAndNotNegative("momentum", sgd.momentum));
    status.Update(FiniteAndNotNegative("weight_decay", sgd.weight_decay));
    return status;
  }
};

struct ValidateSchedule {
  absl::Status operator()(const ConstantSchedule&) const {
    return absl::OkStatus();
  }

  absl::Status operator()(const CosineSchedule& cosine) const {
    return FiniteAndNotNegative("min_learning_rate", cosine.min_learning_rate);
  }

  absl::Status operator()(const StepSchedule& step) const {
    absl::Status status = InRange("step_epochs", step.epochs, 1, INT32_MAX);
    status.Update(FiniteAndNotNegative("gamma", step.gamma));
    return status;
  }
};

absl::Status ValidateTypes(const ModelShape& shape) {
  const auto types = static_cast<int64_t>(shape.node_types.size());
  if (shape.node_types.empty() != shape.edge_types.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("node_types has ", types, " types, but edge_types has ",
                     shape.edge_types.size(), "; both must be given or none"));
  }
  absl::Status status = InRange("node_types", types, 0, kMaxTypes);
  status.Update(InRange("edge_types",
                        static_cast<int64_t>(shape.edge_types.size()), 0,
                        kMaxTypes));
  for (const NodeTypeShape& type : shape.node_types) {
    status.Update(InRange(absl::StrCat("feature_dim of ", type.name),
                          type.feature_dim, 1, shape.feature_dim));
  }
  const auto last = static_cast<int64_t>(shape.num_node_types()) - 1;
  for (const EdgeTypeShape& type : shape.edge_types) {
    status.Update(InRange(absl::StrCat("source of ", type.name),
                          static_cast<int64_t>(type.source), 0, last));
    status.Update(InRange(absl::StrCat("destination of ", type.name),
                          static_cast<int64_t>(type.destination), 0, last));
  }
  status.Update(
      InRange("target_type", static_cast<int64_t>(shape.target_type), 0, last));
  return status;
}

}  // namespace

absl::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "fp32";
    case Precision::kBfloat16:
      return "bf16";
    case Precision::kAuto:
      return "auto";
  }
  return "";
}

std::optional<Precision> PrecisionNamed(absl::string_view name) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBfloat16, Precision::kAuto}) {
    if (name == Name(precision)) return precision;
  }
  return std::nullopt;
}

absl::string_view Name(const ModelOptions& options) {
  return std::visit([](const auto& model) { return model.kName; }, options);
}

bool TakesEdgeWeights(const ModelOptions& options) {
  return std::holds_alternative<SageOptions>(options) ||
         std::holds_alternative<GcnOptions>(options) ||
         std::holds_alternative<NoModelOptions>(options);
}

bool TakesTypes(const ModelOptions& options) {
  return std::holds_alternative<RgcnOptions>(options) ||
         std::holds_alternative<RsageOptions>(options) ||
         std::holds_alternative<RgatOptions>(options) ||
         std::holds_alternative<NoModelOptions>(options);
}

bool CountsSelfLoops(const ModelOptions& options) {
  return std::holds_alternative<GcnOptions>(options);
}

int64_t HiddenWidth(const ModelOptions& options) {
  return std::visit(
      [](const auto& model) -> int64_t {
        if constexpr (requires { model.hidden; }) {
          return model.hidden;
        } else {
          return 0;
        }
      },
      options);
}

int64_t TopWidth(const ModelOptions& options, const ModelShape& shape) {
  return shape.num_layers > 1 ? HiddenWidth(options) : 0;
}

absl::Status TrainOptions::Validate() const {
  absl::Status status = std::visit(ValidateModel{}, model);
  status.Update(std::visit(ValidateOptimizer{}, optimizer));
  status.Update(std::visit(ValidateSchedule{}, schedule));
  status.Update(InRange("warmup_epochs", warmup_epochs, 0, INT32_MAX));
  status.Update(FiniteAndNotNegative("clip_norm", clip_norm));
  status.Update(InUnitInterval("dropout", dropout));
  status.Update(InRange("train_threads", train_threads, 1, kMaxThreads));
  return status;
}

absl::StatusOr<std::optional<int>> GpuNamed(absl::string_view name) {
  if (name.empty() || name == "cpu") return std::nullopt;
  absl::string_view number = name;
  int gpu = 0;
  const bool is_gpu =
      absl::ConsumePrefix(&number, "cuda") &&
      (number.empty() ||
       (absl::ConsumePrefix(&number, ":") && number.size() <= 3 &&
        std::all_of(number.begin(), number.end(), absl::ascii_isdigit) &&
        absl::SimpleAtoi(number, &gpu)));
  if (is_gpu) return gpu;
  return absl::InvalidArgumentError(
      absl::StrCat("must be cpu, cuda or cuda:N, not \"", name, "\""));
}

std::string DeviceName(std::optional<int> gpu) {
  return gpu.has_value() ? absl::StrCat("cuda:", *gpu) : "cpu";
}

absl::Status TrainOptions::ValidateForLabels(store::LabelKind kind,
                                             int64_t width) const {
  absl::Status status = CheckMetric(MetricFor(kind), kind, width);
  status.Update(class_weights.Validate(kind, width));
  return status;
}

absl::Status ModelShape::Validate() const {
  absl::Status status = InRange("feature_dim", feature_dim, 1, kMaxWidth);
  status.Update(InRange("label_width", label_width, 1, INT32_MAX));
  status.Update(InRange("num_layers", num_layers, 1, kMaxLayers));
  status.Update(InRange("trainers", trainers, 1, kMaxTrainers));
  status.Update(window.Validate(trainers));
  status.Update(InRange("epoch_steps", epoch_steps, 1, INT64_MAX));
  status.Update(InRange("epochs", epochs, 1, INT32_MAX));
  status.Update(ValidateTypes(*this));
  return status;
}

namespace {

double BaseRate(const OptimizerOptions& optimizer) {
  return std::visit([](const auto& options) { return options.learning_rate; },
                    optimizer);
}

struct RateAfterWarmup {
  double operator()(const ConstantSchedule&) const { return base; }
  double operator()(const CosineSchedule& cosine) const {
    const double angle = std::numbers::pi * static_cast<double>(step) /
                         static_cast<double>(num_steps);
    return cosine.min_learning_rate +
           (base - cosine.min_learning_rate) * (1 + std::cos(angle)) / 2;
  }
  double operator()(const StepSchedule& decay) const {
    const int64_t falls = step / epoch_steps / decay.epochs;
    return base * std::pow(decay.gamma, static_cast<double>(falls));
  }

  double base;
  // Steps since the warm-up, and all steps after it.
  int64_t step;
  int64_t num_steps;
  int64_t epoch_steps;
};

}  // namespace

LearningRate::LearningRate(const TrainOptions& options, const ModelShape& shape)
    : base_(BaseRate(options.optimizer)),
      schedule_(options.schedule),
      epoch_steps_(shape.epoch_steps),
      warmup_steps_(options.warmup_epochs * shape.epoch_steps),
      all_steps_(shape.epochs * shape.epoch_steps) {}

double LearningRate::At(int64_t step) const {
  if (step < warmup_steps_) {
    return base_ * static_cast<double>(step + 1) /
           static_cast<double>(warmup_steps_);
  }
  return std::visit(RateAfterWarmup{.base = base_,
                                    .step = step - warmup_steps_,
                                    .num_steps = all_steps_ - warmup_steps_,
                                    .epoch_steps = epoch_steps_},
                    schedule_);
}

}  // namespace hearth::train
