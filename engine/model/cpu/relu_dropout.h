#ifndef HEARTH_ENGINE_MODEL_CPU_RELU_DROPOUT_H_
#define HEARTH_ENGINE_MODEL_CPU_RELU_DROPOUT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "engine/train/train_step.h"

/// The operation between two layers: ReLU or LeakyReLU, then dropout, in one
/// pass.

namespace hearth::model {

/// LeakyReLU between layers has torch's default slope for negative values.
inline constexpr float kLeakyReluSlope = 0.01f;

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

  /// The choice as other processors make it: words below the threshold drop, of
  /// Philox blocks with this key, whose counters are a number and the nonce
  /// (relu_dropout.cc).
  uint32_t threshold() const { return threshold_; }
  const std::array<uint32_t, 2>& key() const { return key_; }
  const std::array<uint32_t, 2>& nonce() const { return nonce_; }

  /// In place, for elements [begin, end) of `data`: ReLU, then zero or scale.
  /// NaN stays NaN where kept. REQUIRES: begin is a multiple of kTile.
  void ApplyRelu(float* data, int64_t begin, int64_t end) const;

  /// The same with LeakyReLU.
  void ApplyLeakyRelu(float* data, int64_t begin, int64_t end) const;

  /// The gradient through both, if ApplyLeakyRelu gave `output`. A kept element
  /// may be zero, and its gradient is not: the pattern says what was kept, the
  /// output's sign the slope. REQUIRES: begin is a multiple of kTile.
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

  /// In place, for elements [begin, end) of a matrix, of which `data` points to
  /// the first. REQUIRES: begin is a multiple of DropoutPattern::kTile.
  void Apply(float* data, int64_t begin, int64_t end) const;

  /// The factor of elements that are kept.
  float scale() const { return dropout ? dropout->scale() : 1; }
};

/// In place, for elements [begin, end) of `data`: ReLU. NaN stays NaN.
void ApplyRelu(float* data, int64_t begin, int64_t end);

/// In place, for elements [begin, end) of `data`: LeakyReLU. NaN stays NaN.
void ApplyLeakyRelu(float* data, int64_t begin, int64_t end);

/// Its gradient, where `output` is what it gave.
void LeakyReluGradient(const float* output, const float* gradient,
                       float* result, int64_t begin, int64_t end);

/// The gradient through ReLU and dropout: gradient * scale where `output`,
/// which either ApplyRelu gave, is not zero, else 0. A positive element that
/// was kept is positive still, so the output says what was kept. For elements
/// [begin, end).
void ReluDropoutGradient(const float* output, const float* gradient,
                         float scale, float* result, int64_t begin,
                         int64_t end);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_CPU_RELU_DROPOUT_H_
