#include "engine/ingest/generate/generated_features.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/ingest/generate/generator_key.h"
#include "engine/store/float16.h"

namespace hearth::ingest {
namespace {

/// Mean distance of two centroids, in standard deviations of the noise along
/// the line between them: nearest centroid mistakes one of two classes for the
/// other with probability 0.16.
constexpr double kSeparation = 2.0;

// The noise is a sum of four random bytes (Irwin and Hall): nearly normal.
constexpr float kNoiseMean = 4 * 127.5f;
const float kNoiseScale =
    static_cast<float>(1 / std::sqrt(4 * (256.0 * 256.0 - 1) / 12));

float Noise(uint32_t random) {
  const uint32_t pairs = (random & 0x00FF00FF) + (random >> 8 & 0x00FF00FF);
  const auto sum = static_cast<float>((pairs + (pairs >> 16)) & 0xFFFF);
  return (sum - kNoiseMean) * kNoiseScale;
}

/// [num_classes, dim], each element uniform.
std::vector<float> MakeCentroids(const GenerateOptions& options) {
  const GeneratorKey key(options.seed, GeneratorPart::kCentroids);
  // The difference of two such elements has a variance of 2 * scale^2 / 3.
  const double scale =
      kSeparation * std::sqrt(1.5 / static_cast<double>(options.feature_dim));
  std::vector<float> centroids(
      static_cast<size_t>(options.num_classes * options.feature_dim));
  for (size_t i = 0; i < centroids.size(); i += 4) {
    const RandomBlock block = key.Block(i / 4, 0);
    const size_t count = std::min<size_t>(4, centroids.size() - i);
    for (size_t j = 0; j < count; ++j) {
      centroids[i + j] = static_cast<float>(scale * (block[j] * 0x1p-31 - 1));
    }
  }
  return centroids;
}

void Store(float value, float& out) { out = value; }

struct Half {
  uint16_t bits;
};
void Store(float value, Half& out) { out.bits = store::FloatToFloat16(value); }

struct BFloat {
  uint16_t bits;
};
void Store(float value, BFloat& out) {
  out.bits = store::FloatToBFloat16(value);
}

template <typename Element>
class Features : public ComputedItems {
 public:
  Features(const GenerateOptions& options, const GeneratedClasses& classes)
      : classes_(classes),
        key_(options.seed, GeneratorPart::kNoise),
        dim_(static_cast<size_t>(options.feature_dim)),
        centroids_(MakeCentroids(options)) {}

  int64_t num_items() const override { return classes_.num_nodes(); }
  int64_t item_bytes() const override {
    return static_cast<int64_t>(dim_ * sizeof(Element));
  }

  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    const size_t row_bytes = dim_ * sizeof(Element);
    for (; !out.empty(); out.remove_prefix(row_bytes)) {
      ComputeRow(first++, out.data());
    }
  }

 private:
  void ComputeRow(int64_t node, std::byte* out) const {
    const float* centroid =
        centroids_.data() + static_cast<size_t>(classes_.ClassOf(node)) * dim_;
    for (size_t i = 0; i < dim_; i += 4) {
      const RandomBlock block =
          key_.Block(static_cast<uint64_t>(node), static_cast<uint32_t>(i / 4));
      const size_t count = std::min<size_t>(4, dim_ - i);
      Element elements[4];
      for (size_t j = 0; j < count; ++j) {
        Store(centroid[i + j] + Noise(block[j]), elements[j]);
      }
      std::memcpy(out + i * sizeof(Element), elements, count * sizeof(Element));
    }
  }

  const GeneratedClasses classes_;
  const GeneratorKey key_;
  const size_t dim_;
  const std::vector<float> centroids_;
};

class Labels : public ComputedItems {
 public:
  explicit Labels(const GeneratedClasses& classes) : classes_(classes) {}

  int64_t num_items() const override { return classes_.num_nodes(); }
  int64_t item_bytes() const override { return sizeof(int32_t); }

  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    for (; !out.empty(); out.remove_prefix(sizeof(int32_t))) {
      const auto label = static_cast<int32_t>(classes_.ClassOf(first++));
      std::memcpy(out.data(), &label, sizeof(label));
    }
  }

 private:
  const GeneratedClasses classes_;
};

}  // namespace

uint64_t CentroidBytes(const GenerateOptions& options) {
  return static_cast<uint64_t>(options.num_classes) *
         static_cast<uint64_t>(options.feature_dim) * sizeof(float);
}

std::unique_ptr<ComputedItems> NewGeneratedFeatures(
    const GenerateOptions& options, const GeneratedClasses& classes) {
  switch (options.feature_dtype) {
    case store::DType::kFloat16:
      return std::make_unique<Features<Half>>(options, classes);
    case store::DType::kBFloat16:
      return std::make_unique<Features<BFloat>>(options, classes);
    default:
      return std::make_unique<Features<float>>(options, classes);
  }
}

std::unique_ptr<ComputedItems> NewGeneratedLabels(
    const GeneratedClasses& classes) {
  return std::make_unique<Labels>(classes);
}

}  // namespace hearth::ingest
