#ifndef HEARTH_ENGINE_MODEL_GRADIENT_NORM_H_
#define HEARTH_ENGINE_MODEL_GRADIENT_NORM_H_

#include <ATen/core/Tensor.h>

#include <vector>

namespace hearth::model {

/// The L2 norm of all elements of float32 tensors together. The same in every
/// bit for any number of threads.
double GlobalNorm(const std::vector<at::Tensor>& tensors);

/// `gradients` scaled to a GlobalNorm of at most `max_norm`, as torch's
/// clip_grad_norm_ does it: by max_norm / (norm + 1e-6) where that is below 1.
/// Those that are within it already are given back as they are.
std::vector<at::Tensor> ClipNorm(const std::vector<at::Tensor>& gradients,
                                 double max_norm);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_GRADIENT_NORM_H_
