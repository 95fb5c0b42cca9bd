#ifndef HEARTH_ENGINE_MODEL_CONVOLUTION_H_
#define HEARTH_ENGINE_MODEL_CONVOLUTION_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/named_tensor.h"
#include "engine/sample/mini_batch.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// One layer of message passing with its parameters, named as in PyTorch
/// Geometric's state_dict ("lin_l.weight"). Single-owner. Throws what LibTorch
/// throws.
class Convolution {
 public:
  virtual ~Convolution() = default;

  /// Rows of the block's destinations, for `x`, those of its sources.
  /// `in_degrees` in the whole graph, of the sources at least.
  virtual at::Tensor Forward(const at::Tensor& x, const sample::Block& block,
                             absl::Span<const int64_t> in_degrees) const = 0;

  /// In the order in which they were drawn.
  virtual std::vector<NamedTensor> parameters() const = 0;
};

/// The layers of a model, the one next to the inputs first. Initial weights
/// have the distributions of PyTorch Geometric's layers and are drawn from
/// (model_seed, layer, parameter). REQUIRES: `options` and `shape` are valid
/// and there is a model.
std::vector<std::unique_ptr<Convolution>> NewConvolutions(
    const train::TrainOptions& options, const train::ModelShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CONVOLUTION_H_
