#include "engine/model/network.h"

#include <ATen/ops/from_blob.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/model/graph_functions.h"
#include "engine/model/initializer.h"
#include "engine/model/model_kind.h"
#include "engine/model/model_kinds.h"
#include "engine/store/label_kind.h"

namespace hearth::model {
namespace {

// The task as config.json describes it.
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

// Appends the tensors of a layer, under their names in the model.
void AddLayersTensors(size_t layer, const std::vector<NamedTensor>& tensors,
                      std::vector<NamedTensor>& all) {
  for (const NamedTensor& named : tensors) {
    all.push_back(
        {absl::StrCat("convs.", layer, ".", named.name), named.tensor});
  }
}

}  // namespace

Network::Network(const train::TrainOptions& options,
                 const train::ModelShape& shape)
    : dropout_(options.dropout), model_seed_(options.model_seed) {
  const auto kind = NewModelKind(options.model);
  for (const LayerPlace& place : LayerPlaces(*kind, shape)) {
    const size_t layer = layers_.size();
    layers_.push_back(kind->NewLayer(place, Initializer(model_seed_, layer)));
    AddLayersTensors(layer, layers_.back()->parameters(), parameters_);
    AddLayersTensors(layer, layers_.back()->constants(), constants_);
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
  const auto kind = NewModelKind(options.model);
  return nlohmann::ordered_json{{"format", "hearth-model-1"},
                                {"task", Task(shape.label_kind)},
                                {"model", kind->name()},
                                {"in_channels", shape.feature_dim},
                                {"hidden_channels", kind->hidden()},
                                {"out_channels", shape.label_width},
                                {"num_layers", shape.num_layers},
                                {"heads", kind->heads()},
                                {"dropout", options.dropout}}
      .dump(2);
}

}  // namespace hearth::model
