#ifndef HEARTH_ENGINE_MODEL_RELU_DROPOUT_H_
#define HEARTH_ENGINE_MODEL_RELU_DROPOUT_H_

#include <array>
#include <cstdint>

#include "engine/train/train_step.h"

/// The operation between two layers: ReLU, then dropout, in one pass.

namespace hearth::model {

/// The choice of the elements of a matrix that are dropped: a pure function of
/// a key and the element's place, so that no mask is stored and threads change
/// nothing. Thread-safe.
class DropoutPattern {
 public:
  /// Elements are handled in tiles of this many.
  static constexpr int64_t kTile = 64;

  /// REQUIRES: 0 <= probability < 1.
  DropoutPattern(double probability, uint64_t model_seed,
                 const train::StepPosition& position, uint64_t layer);

  /// Whether element `index` (row-major) is kept.
  bool Keeps(int64_t index) const;

  /// The factor that kept elements are multiplied with: 1 / (1 - probability).
  float scale() const { return scale_; }

  /// In place, for elements [begin, end) of `data`: ReLU, then zero or scale.
  /// NaN stays NaN where kept. REQUIRES: begin is a multiple of kTile.
  void ApplyRelu(float* data, int64_t begin, int64_t end) const;

 private:
  uint32_t threshold_;
  float scale_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> nonce_;
};

/// In place, for elements [begin, end) of `data`: ReLU. NaN stays NaN.
void ApplyRelu(float* data, int64_t begin, int64_t end);

/// The gradient through both: gradient * scale where `output`, which either
/// function above gave, is not zero, else 0. A positive element that was kept
/// is positive still, so the output says what was kept. For elements [begin,
/// end).
void ReluDropoutGradient(const float* output, const float* gradient,
                         float scale, float* result, int64_t begin,
                         int64_t end);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RELU_DROPOUT_H_
