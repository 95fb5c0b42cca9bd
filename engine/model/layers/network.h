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
/// one. Single-owner. Throws what LibTorch throws.
class TypeProjection {
 public:
  TypeProjection(const RelationSchema& schema, int64_t out,
                 Initializer initializer);

  /// [rows, out] for `x`, of whose rows the columns of their types are read;
  /// `types` of each, empty: all are of type 0.
  at::Tensor Forward(const at::Tensor& x,
                     absl::Span<const store::TypeId> types) const;

  /// "proj.TYPE.weight", "proj.TYPE.bias".
  std::vector<NamedTensor> parameters() const;

 private:
  const RelationSchema schema_;
  const int64_t out_;
  // By node type.
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

/// A model: convolutions with an activation and dropout between them, and what
/// its kind has before and after. Single-owner. Throws what LibTorch throws.
class Network {
 public:
  /// Initial weights are a function of options.model_seed. They and all that is
  /// computed are on `device`. REQUIRES: `options` and `shape` are valid and
  /// there is a model.
  Network(const train::TrainOptions& options, const train::ModelShape& shape,
          const at::Device& device = at::kCPU);

  /// Scores of the seeds, [num_seeds, label_width], before softmax or logistic
  /// function. Drops activations if a position is given. Embeddings that the
  /// batch's top layer pulls are no function of the parameters; those that it
  /// pushes are written to batch.top_rows.pushed, unless that is null. The
  /// backward pass writes and adds the gradients that batch.top_rows names. The
  /// batch must outlive the result's gradient. REQUIRES: batch.Validate; on
  /// other devices than the processor, a batch without a top layer.
  at::Tensor Forward(const train::BatchView& batch,
                     const std::optional<train::StepPosition>& position) const;

  /// Width of the embeddings that the last convolution takes; 0 if it is the
  /// first.
  int64_t top_width() const { return top_width_; }

  /// Under the names of PyTorch Geometric's state_dict ("convs.0.bias").
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

  /// Tensors that an export has besides, under such names.
  const std::vector<NamedTensor>& constants() const { return constants_; }

 private:
  // Dropout after a layer: nothing without a position, in evaluations.
  std::optional<DropoutPattern> Dropout(
      const std::optional<train::StepPosition>& position, size_t layer) const;

  // Does what all models do after a convolution that is not the output.
  at::Tensor ActivateRows(const at::Tensor& x,
                          const std::optional<train::StepPosition>& position,
                          size_t layer) const;

  const at::Device device_;
  // Absent in kinds that take inputs as they are.
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

/// The text of config.json, from which the model can be built again. REQUIRES:
/// as the constructor.
std::string ModelConfig(const train::TrainOptions& options,
                        const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_NETWORK_H_
