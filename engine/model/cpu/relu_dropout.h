#ifndef HEARTH_ENGINE_MODEL_CPU_RELU_DROPOUT_H_
#define HEARTH_ENGINE_MODEL_CPU_RELU_DROPOUT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "engine/train/train_step.h"

/// Operation between two layers: ReLU or LeakyReLU, then dropout, in one pass.

namespace hearth::model {

/// Slope of LeakyReLU between layers, for negative values: torch's default.
inline constexpr float kLeakyReluSlope = 0.01f;

/// Choice of the dropped elements of a matrix: a pure function of a key and the
/// element's index, so that no mask is stored and results do not depend on
/// threads. Thread-safe.
class DropoutPattern {
 public:
  /// Elements are processed in tiles of this many.
  static constexpr int64_t kTile = 64;

  /// REQUIRES: 0 <= probability < 1.
  DropoutPattern(double probability, uint64_t model_seed,
                 const train::StepPosition& position, uint64_t layer);

  /// Whether element `index` (row-major) is kept.
  bool Keeps(int64_t index) const;

  /// Factor of kept elements: 1 / (1 - probability).
  float scale() const { return scale_; }

  /// Inputs by which other processors make the same choice: elements are
  /// dropped whose word, of Philox blocks with this key and counters made of a
  /// number and the nonce, is below the threshold (relu_dropout.cc).
  uint32_t threshold() const { return threshold_; }
  const std::array<uint32_t, 2>& key() const { return key_; }
  const std::array<uint32_t, 2>& nonce() const { return nonce_; }

  /// Applies ReLU, then drops or scales, in place, to elements [begin, end) of
  /// `data`. Kept NaN stays NaN. REQUIRES: begin is a multiple of kTile.
  void ApplyRelu(float* data, int64_t begin, int64_t end) const;

  /// ApplyRelu with LeakyReLU in place of ReLU.
  void ApplyLeakyRelu(float* data, int64_t begin, int64_t end) const;

  /// Gradient through LeakyReLU and dropout, where ApplyLeakyRelu gave
  /// `output`. The pattern tells which elements were kept (a kept one may be
  /// zero, and has a gradient), the sign of the output tells the slope.
  /// REQUIRES: begin is a multiple of kTile.
  void LeakyReluGradient(const float* output, const float* gradient,
                         float* result, int64_t begin, int64_t end) const;

 private:
  uint32_t threshold_;
  float scale_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> nonce_;
};

/// The activation between two layers: ReLU, then `dropout` if there is one.
struct ReluActivation {
  std::optional<DropoutPattern> dropout;

  /// Applies the activation, in place, to elements [begin, end) of a matrix
  /// whose first element is at `data`. REQUIRES: begin is a multiple of
  /// DropoutPattern::kTile.
  void Apply(float* data, int64_t begin, int64_t end) const;

  /// Factor of kept elements.
  float scale() const { return dropout ? dropout->scale() : 1; }
};

/// ReLU, in place, of elements [begin, end) of `data`. NaN stays NaN.
void ApplyRelu(float* data, int64_t begin, int64_t end);

/// LeakyReLU, in place, of elements [begin, end) of `data`. NaN stays NaN.
void ApplyLeakyRelu(float* data, int64_t begin, int64_t end);

/// Gradient through LeakyReLU, where ApplyLeakyRelu gave `output`.
void LeakyReluGradient(const float* output, const float* gradient,
                       float* result, int64_t begin, int64_t end);

/// Gradient through ReLU and dropout, for elements [begin, end): gradient *
/// scale where `output`, the result of either ApplyRelu, is not zero, else 0.
/// The output tells which elements were kept, because kept positive elements
/// stay positive.
void ReluDropoutGradient(const float* output, const float* gradient,
                         float scale, float* result, int64_t begin,
                         int64_t end);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_RELU_DROPOUT_H_
