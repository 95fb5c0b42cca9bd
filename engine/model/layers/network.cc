#include "engine/model/layers/network.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/cpu/relations.h"
#include "engine/model/layers/model_kind.h"
#include "engine/model/layers/parameters.h"
#include "engine/model/operators/edges.h"
#include "engine/model/operators/graph_functions.h"
#include "engine/model/runtime/device_streams.h"
#include "engine/store/labels.h"
#include "engine/train/train_step.h"

namespace hearth::model {

TypeProjection::TypeProjection(const RelationSchema& schema, int64_t out,
                               Initializer initializer)
    : schema_(schema), out_(out) {
  for (const train::NodeTypeShape& type : schema_.node_types) {
    weights_.push_back(
        initializer.Linear({out, type.feature_dim}, type.feature_dim));
    biases_.push_back(initializer.Linear({out}, type.feature_dim));
  }
}

at::Tensor TypeProjection::Forward(
    const at::Tensor& x, absl::Span<const store::TypeId> types) const {
  const std::vector<RowsPtr> rows =
      RowsByType(types, x.size(0), schema_.node_types.size());
  at::Tensor result = at::zeros({x.size(0), out_}, x.options());
  for (size_t type = 0; type < rows.size(); ++type) {
    const RowSet set = {.rows = rows[type],
                        .columns = schema_.node_types[type].feature_dim};
    const at::Tensor projected =
        Linear(GatherRows(x, {set}).front(), weights_[type]);
    result = AddRows(AddBiasToRows(result, biases_[type], rows[type]),
                     projected, rows[type]);
  }
  return result;
}

std::vector<NamedTensor> TypeProjection::parameters() const {
  std::vector<NamedTensor> all;
  for (size_t type = 0; type < weights_.size(); ++type) {
    const std::string prefix =
        absl::StrCat("proj.", schema_.NodeKey(type), ".");
    all.push_back({prefix + "weight", weights_[type]});
    all.push_back({prefix + "bias", biases_[type]});
  }
  return all;
}

namespace {

// Name of the task in config.json.
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

// Adds the types of the graph, from which PyG's model can be built again.
void AddTypes(const RelationSchema& schema, nlohmann::ordered_json& config) {
  auto node_types = nlohmann::ordered_json::array();
  for (const train::NodeTypeShape& type : schema.node_types) {
    node_types.push_back(
        {{"name", type.name}, {"in_channels", type.feature_dim}});
  }
  auto edge_types = nlohmann::ordered_json::array();
  for (const Relation& relation : schema.relations) {
    edge_types.push_back(nlohmann::ordered_json::array(
        {schema.node_types[relation.source].name, relation.name,
         schema.node_types[relation.destination].name}));
  }
  config["node_types"] = std::move(node_types);
  config["edge_types"] = std::move(edge_types);
  config["target"] = schema.node_types[schema.target_type].name;
}

// Appends the tensors of a layer, under their names in the model.
void AddLayersTensors(size_t layer, const std::vector<NamedTensor>& tensors,
                      std::vector<NamedTensor>& all) {
  for (const NamedTensor& named : tensors) {
    all.push_back(
        {absl::StrCat("convs.", layer, ".", named.name), named.tensor});
  }
}

// Calls `function(row)` for each pushed node, in order, with its row among the
// computed nodes.
template <typename F>
void ForEachPushed(const sample::TopLayer& top, const F& function) {
  size_t row = 0;
  for (const int32_t position : top.pushed) {
    while (top.computed[row] != position) ++row;
    function(row);
  }
}

// Copies the pushed rows of `x`, which has a row for each computed node. The
// activation is applied again when they are pulled: ReLU of ReLU changes
// nothing, but LeakyReLU must be applied once.
void Push(const at::Tensor& x, const sample::TopLayer& top,
          Activation activation, const train::LayerRows& rows) {
  const auto* const from = x.const_data_ptr<float>();
  float* to = rows.pushed;
  ForEachPushed(top, [&](size_t row) {
    to = std::copy_n(from + static_cast<int64_t>(row) * rows.width, rows.width,
                     to);
  });
  if (activation == Activation::kRelu) {
    ApplyRelu(rows.pushed, 0, to - rows.pushed);
  }
}

// A batch's top layer, borrowed.
struct TopRows {
  const sample::TopLayer* top;
  train::LayerRows rows;
};

// Joins the rows of all top nodes: computed ones from `x`, and pulled ones.
// Backward stores the gradients by pulled rows for the batches that compute
// these nodes next, and adds the gradients that earlier batches have stored.
class JoinFunction : public torch::autograd::Function<JoinFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const TopRows& top_rows) {
    SaveValue(context, top_rows);
    const auto& [top, rows] = top_rows;
    at::Tensor joined = at::empty(
        {static_cast<int64_t>(top->nodes.size()), rows.width}, at::kFloat);
    auto* const out = joined.mutable_data_ptr<float>();
    Scatter(rows.pulled, top->pulled, rows.width, out);
    Scatter(x.const_data_ptr<float>(), top->computed, rows.width, out);
    return joined;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto [top, rows] = LoadValue<TopRows>(context);
    const at::Tensor gradient = gradients[0].contiguous();
    const auto* const from = gradient.const_data_ptr<float>();
    if (rows.pulled_gradients != nullptr) {
      Gather(from, top->pulled, rows.width, rows.pulled_gradients);
    }
    at::Tensor by_computed = at::empty(
        {static_cast<int64_t>(top->computed.size()), rows.width}, at::kFloat);
    auto* const to = by_computed.mutable_data_ptr<float>();
    Gather(from, top->computed, rows.width, to);
    if (rows.pushed_gradients != nullptr) AddPushed(*top, rows, to);
    return {by_computed, at::Tensor()};
  }

 private:
  static void Scatter(const float* from, const std::vector<int32_t>& positions,
                      int64_t width, float* to) {
    for (const int32_t position : positions) {
      std::copy_n(from, width, to + position * width);
      from += width;
    }
  }

  static void Gather(const float* from, const std::vector<int32_t>& positions,
                     int64_t width, float* to) {
    for (const int32_t position : positions) {
      to = std::copy_n(from + position * width, width, to);
    }
  }

  // Adds the stored gradients to the gradients by computed rows.
  static void AddPushed(const sample::TopLayer& top,
                        const train::LayerRows& rows, float* by_computed) {
    const float* from = rows.pushed_gradients;
    ForEachPushed(top, [&](size_t row) {
      float* const to = by_computed + static_cast<int64_t>(row) * rows.width;
      for (int64_t i = 0; i < rows.width; ++i) to[i] += *from++;
    });
  }
};

// Copy of the rows as a tensor of the current stream.
at::Tensor CopyRows(const train::DeviceRows& rows, at::IntArrayRef sizes,
                    const at::Device& device) {
  TORCH_CHECK(!device.is_cpu(), "the inputs are in the memory of a GPU");
  at::Tensor x = at::empty(sizes, at::dtype(at::kFloat).device(device));
  const c10::impl::VirtualGuardImpl streams(device.type());
  const absl::Status status =
      rows.QueueCopy(streams.getStreamNativeHandle(streams.getStream(device)),
                     x.mutable_data_ptr<float>());
  TORCH_CHECK(status.ok(), std::string(status.message()));
  return x;
}

// Input rows of a batch, on `device`.
SourceRows InputsOn(const at::Device& device, const train::BatchView& batch) {
  const int64_t sizes[] = {
      static_cast<int64_t>(batch.sample.input_nodes.size()), batch.feature_dim};
  if (batch.rows.has_value()) {
    TORCH_CHECK(device.is_cpu(), "the inputs are in place, in host memory");
    return {*batch.rows, sizes[0]};
  }
  if (batch.device_rows != nullptr) {
    return CopyRows(*batch.device_rows, sizes, device);
  }
  // LibTorch has no tensors of constants; nobody writes to this one.
  return ToDevice(
      at::from_blob(const_cast<float*>(batch.inputs), sizes, at::kFloat),
      device);
}

}  // namespace

Network::Network(const train::TrainOptions& options,
                 const train::ModelShape& shape, const at::Device& device)
    : device_(device),
      dropout_(options.dropout),
      model_seed_(options.model_seed) {
  const auto kind = NewModelKind(options.model, shape);
  activation_ = kind->activation();
  // Layer number for drawing; convolutions are drawn as layers 0 to num_layers
  // - 1.
  const auto after = static_cast<uint64_t>(shape.num_layers);
  if (kind->projects_inputs()) {
    projection_.emplace(SchemaOf(shape), kind->hidden(),
                        Initializer(model_seed_, after + 1, device));
    parameters_ = projection_->parameters();
  }
  for (const LayerPlace& place : LayerPlaces(*kind, shape)) {
    const size_t layer = layers_.size();
    if (layer > 0) top_width_ = place.in;
    layers_.push_back(
        kind->NewLayer(place, Initializer(model_seed_, layer, device)));
    AddLayersTensors(layer, layers_.back()->parameters(), parameters_);
    AddLayersTensors(layer, layers_.back()->constants(), constants_);
  }
  if (kind->has_output_layer()) {
    Initializer initializer(model_seed_, after, device);
    output_weight_ =
        initializer.Linear({shape.label_width, kind->hidden()}, kind->hidden());
    output_bias_ = initializer.Linear({shape.label_width}, kind->hidden());
    parameters_.push_back({"lin.weight", output_weight_});
    parameters_.push_back({"lin.bias", output_bias_});
  }
}

at::Tensor Network::Forward(
    const train::BatchView& batch,
    const std::optional<train::StepPosition>& position) const {
  const sample::MiniBatch& sample = batch.sample;
  SourceRows inputs = InputsOn(device_, batch);
  if (projection_) {
    inputs = projection_->Forward(inputs.Matrix(), sample.node_types);
  }
  at::Tensor x;
  const size_t last = layers_.size() - 1;
  for (size_t layer = 0; layer <= last; ++layer) {
    const bool of_top = layer == last && sample.top.has_value();
    const LayerNodes nodes =
        of_top ? LayerNodes{{sample.top->in_degrees, sample.top->nodes,
                             batch.self_loops},
                            sample.top->node_types}
               : LayerNodes{
                     {sample.in_degrees, sample.input_nodes, batch.self_loops},
                     sample.node_types};
    const bool to_top = layer + 1 == last && sample.top.has_value();
    std::optional<ReluActivation> activation;
    if (layer != last && !to_top && activation_ == Activation::kRelu) {
      activation = {Dropout(position, layer)};
    }
    x = layers_[layer]->Forward(inputs, sample.blocks[layer], nodes,
                                activation);
    if (layer == last) break;
    if (to_top) {
      const sample::TopLayer& top = *sample.top;
      if (batch.top_rows.pushed != nullptr) {
        Push(x, top, activation_, batch.top_rows);
      }
      if (!top.pulled.empty() || batch.top_rows.pushed_gradients != nullptr) {
        x = JoinFunction::apply(x,
                                TopRows{.top = &top, .rows = batch.top_rows});
      }
    }
    inputs = activation ? x : ActivateRows(x, position, layer);
  }
  if (!output_weight_.defined()) return x;
  return Linear(ActivateRows(x, position, last), output_weight_, output_bias_);
}

std::optional<DropoutPattern> Network::Dropout(
    const std::optional<train::StepPosition>& position, size_t layer) const {
  if (!position || dropout_ == 0) return std::nullopt;
  return DropoutPattern(dropout_, model_seed_, *position, layer);
}

at::Tensor Network::ActivateRows(
    const at::Tensor& x, const std::optional<train::StepPosition>& position,
    size_t layer) const {
  const std::optional<DropoutPattern> dropout = Dropout(position, layer);
  return activation_ == Activation::kRelu ? Activate(x, ReluActivation{dropout})
                                          : LeakyReluDropout(x, dropout);
}

std::string ModelConfig(const train::TrainOptions& options,
                        const train::ModelShape& shape) {
  const auto kind = NewModelKind(options.model, shape);
  nlohmann::ordered_json config = {{"format", "hearth-model-1"},
                                   {"task", Task(shape.label_kind)},
                                   {"model", kind->name()},
                                   {"in_channels", shape.feature_dim},
                                   {"hidden_channels", kind->hidden()},
                                   {"out_channels", shape.label_width},
                                   {"num_layers", shape.num_layers},
                                   {"heads", kind->heads()},
                                   {"dropout", options.dropout}};
  if (train::TakesTypes(options.model)) {
    config["num_bases"] = kind->bases();
    AddTypes(SchemaOf(shape), config);
  }
  return config.dump(2);
}

}  // namespace hearth::model
