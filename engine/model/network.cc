#include "engine/model/network.h"

#include <ATen/ops/from_blob.h>

#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/model/graph_functions.h"
#include "engine/store/label_kind.h"

namespace hearth::model {
namespace {

// What config.json says of the kind of model.
struct Kind {
  const char* name;
  int64_t hidden;
  int64_t heads;
};

struct DescribeModel {
  Kind operator()(const train::SageOptions& sage) const {
    return {"sage", sage.hidden, 0};
  }
  Kind operator()(const train::GcnOptions& gcn) const {
    return {"gcn", gcn.hidden, 0};
  }
  Kind operator()(const train::GatOptions& gat) const {
    return {"gat", gat.hidden, gat.heads};
  }
  Kind operator()(const train::NoModelOptions&) const { return {"none", 0, 0}; }
};

// What config.json says of the task.
const char* Task(store::LabelKind kind) {
  switch (kind) {
    case store::LabelKind::kClasses:
      return "classification";
    case store::LabelKind::kMultiLabel:
      return "multi_label_classification";
    case store::LabelKind::kTargets:
      return "regression";
  }
  return "";
}

}  // namespace

Network::Network(const train::TrainOptions& options,
                 const train::ModelShape& shape)
    : layers_(NewConvolutions(options, shape)),
      dropout_(options.dropout),
      model_seed_(options.model_seed) {
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    for (const NamedTensor& parameter : layers_[layer]->parameters()) {
      parameters_.push_back({absl::StrCat("convs.", layer, ".", parameter.name),
                             parameter.tensor});
    }
  }
}

at::Tensor Network::Forward(
    const train::BatchView& batch,
    const std::optional<train::StepPosition>& position) const {
  const sample::MiniBatch& sample = batch.sample;
  // LibTorch has no tensors of constants; nobody writes to this one.
  at::Tensor x = at::from_blob(
      const_cast<float*>(batch.inputs),
      {static_cast<int64_t>(sample.input_nodes.size()), batch.feature_dim},
      at::kFloat);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    x = layers_[layer]->Forward(x, sample.blocks[layer], sample.in_degrees);
    if (layer + 1 == layers_.size()) break;
    std::optional<DropoutPattern> dropout;
    if (position && dropout_ > 0) {
      dropout.emplace(dropout_, model_seed_, *position, layer);
    }
    x = ReluDropout(x, dropout);
  }
  return x;
}

std::string ModelConfig(const train::TrainOptions& options,
                        const train::ModelShape& shape) {
  const Kind kind = std::visit(DescribeModel{}, options.model);
  return nlohmann::ordered_json{{"format", "hearth-model-1"},
                                {"task", Task(shape.label_kind)},
                                {"model", kind.name},
                                {"in_channels", shape.feature_dim},
                                {"hidden_channels", kind.hidden},
                                {"out_channels", shape.label_width},
                                {"num_layers", shape.num_layers},
                                {"heads", kind.heads},
                                {"dropout", options.dropout}}
      .dump(2);
}

}  // namespace hearth::model
