#include "engine/strategy/batch_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace hearth::strategy {
namespace {

// Fewer batches tell little about how their sizes are spread.
constexpr int64_t kLeastBatches = 30;
constexpr double kDeviations = 8;

}  // namespace

sample::BatchShape BatchBound::WithMargin() const {
  std::vector<int64_t> bounds;
  sample::ForEachNumber(bound,
                        [&](int64_t number) { bounds.push_back(number); });
  sample::BatchShape shape = likely;
  shape.relations.resize(bound.relations.size());
  size_t i = 0;
  sample::ForEachNumber(
      shape, [&](int64_t& number) { number = std::min(number, bounds[i++]); });
  shape.types_per_node = bound.types_per_node;
  return shape;
}

void BatchSpread::Add(const sample::BatchShape& batch, int64_t most_seeds) {
  sample::Enlarge(batch, largest_);
  if (batch.nodes.back() < most_seeds) return;
  ++count_;
  size_t i = 0;
  sample::ForEachNumber(batch, [&](int64_t number) {
    sums_.resize(std::max(sums_.size(), i + 1));
    const auto value = static_cast<double>(number);
    sums_[i].sum += value;
    sums_[i].of_squares += value * value;
    ++i;
  });
}

sample::BatchShape BatchSpread::Likely() const {
  const auto likely = [this](int64_t largest, const Sums& sums) {
    const int64_t most = largest + largest / 8;
    if (count_ < kLeastBatches) return most;
    const auto count = static_cast<double>(count_);
    const double mean = sums.sum / count;
    const double variance =
        std::max(0.0, (sums.of_squares - mean * sums.sum) / (count - 1));
    const auto spread = static_cast<int64_t>(
        std::ceil(mean + kDeviations * std::sqrt(variance)));
    return std::clamp(spread, largest, most);
  };
  sample::BatchShape shape = largest_;
  size_t i = 0;
  sample::ForEachNumber(shape, [&](int64_t& number) {
    number = likely(number, i < sums_.size() ? sums_[i] : Sums());
    ++i;
  });
  return shape;
}

}  // namespace hearth::strategy
