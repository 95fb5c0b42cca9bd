#ifndef HEARTH_ENGINE_MODEL_LAYERS_NETWORK_H_
#define HEARTH_ENGINE_MODEL_LAYERS_NETWORK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/cpu/relations.h"
#include "engine/model/layers/model_kind.h"
#include "engine/model/layers/parameters.h"
#include "engine/store/topology.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// A linear layer for each node type, which brings rows of several widths to
/// one width. Single-owner. Throws what LibTorch throws.
class TypeProjection {
 public:
  TypeProjection(const RelationSchema& schema, int64_t out,
                 Initializer initializer);

  /// [rows, out] for `x`, of whose rows only the columns of their type are
  /// read; `types` has each row's type, empty: all are of type 0.
  at::Tensor Forward(const at::Tensor& x,
                     absl::Span<const store::TypeId> types) const;

  /// Parameters "proj.TYPE.weight" and "proj.TYPE.bias".
  std::vector<NamedTensor> parameters() const;

 private:
  const RelationSchema schema_;
  const int64_t out_;
  // Weight and bias of each node type.
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

/// A model: convolutions with an activation and dropout between them, and the
/// projection and output layer that its kind has. Single-owner. Throws what
/// LibTorch throws.
class Network {
 public:
  /// Initial weights are a function of options.model_seed. Weights and all
  /// results are on `device`. REQUIRES: valid `options` and `shape`; a model.
  Network(const train::TrainOptions& options, const train::ModelShape& shape,
          const at::Device& device = at::kCPU);

  /// Scores of the seeds, [num_seeds, label_width], before softmax or logistic
  /// function. Dropout applies if there is a `position`. Embeddings that the
  /// batch's top layer pulls are constants; embeddings that it pushes are
  /// written to batch.top_rows.pushed, unless that is null. The backward pass
  /// writes and adds the gradients in batch.top_rows. The batch must outlive
  /// the result's gradient. REQUIRES: batch.Validate; on other devices than the
  /// processor, a batch without a top layer.
  at::Tensor Forward(const train::BatchView& batch,
                     const std::optional<train::StepPosition>& position) const;

  /// Width of the embeddings that the last convolution takes; 0 if it is the
  /// first.
  int64_t top_width() const { return top_width_; }

  /// Parameters under the names of PyTorch Geometric's state_dict
  /// ("convs.0.bias").
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

  /// Further tensors of an export, under PyG's names.
  const std::vector<NamedTensor>& constants() const { return constants_; }

 private:
  // Dropout after a layer; none without a position, in evaluations.
  std::optional<DropoutPattern> Dropout(
      const std::optional<train::StepPosition>& position, size_t layer) const;

  // Applies the activation and dropout after a convolution that does not make
  // the output.
  at::Tensor ActivateRows(const at::Tensor& x,
                          const std::optional<train::StepPosition>& position,
                          size_t layer) const;

  const at::Device device_;
  // Absent in kinds that take inputs unprojected.
  std::optional<TypeProjection> projection_;
  std::vector<std::unique_ptr<Convolution>> layers_;
  // [label_width, hidden] and [label_width]; undefined where the last
  // convolution makes the output.
  at::Tensor output_weight_;
  at::Tensor output_bias_;
  Activation activation_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> constants_;
  int64_t top_width_ = 0;
  double dropout_;
  uint64_t model_seed_;
};

/// Text of config.json, from which the model can be built again. REQUIRES: as
/// the constructor.
std::string ModelConfig(const train::TrainOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_NETWORK_H_
