#ifndef HEARTH_ENGINE_MODEL_OPERATORS_VALUES_FIXTURE_H_
#define HEARTH_ENGINE_MODEL_OPERATORS_VALUES_FIXTURE_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>

namespace hearth::model {

/// Values in [-1, 1) that depend on the shape alone.
inline at::Tensor Values(at::IntArrayRef shape) {
  at::Tensor result = at::empty(shape, at::kFloat);
  auto* data = result.mutable_data_ptr<float>();
  uint32_t state = 1;
  for (int64_t i = 0; i < result.numel(); ++i) {
    state = state * 1664525 + 1013904223;
    data[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return result;
}

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_OPERATORS_VALUES_FIXTURE_H_
