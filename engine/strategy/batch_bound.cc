#include "engine/strategy/batch_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace hearth::strategy {
namespace {

// Fewer batches tell little about how their sizes are spread.
constexpr int64_t kLeastBatches = 30;
constexpr double kDeviations = 8;

std::vector<int64_t> AtMost(const std::vector<int64_t>& numbers,
                            const std::vector<int64_t>& bounds) {
  std::vector<int64_t> least(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    least[i] = std::min(numbers[i], bounds[i]);
  }
  return least;
}

}  // namespace

sample::BatchShape BatchBound::WithMargin() const {
  return {.nodes = AtMost(likely.nodes, bound.nodes),
          .edges = AtMost(likely.edges, bound.edges),
          .listed_edges = std::min(likely.listed_edges, bound.listed_edges),
          .types_per_node = bound.types_per_node};
}

void BatchSpread::Add(const sample::BatchShape& batch, int64_t most_seeds) {
  sample::Enlarge(batch, largest_);
  if (batch.nodes.back() < most_seeds) return;
  ++count_;
  const auto add = [](int64_t number, Sums& sums) {
    const auto value = static_cast<double>(number);
    sums.sum += value;
    sums.of_squares += value * value;
  };
  nodes_.resize(batch.nodes.size());
  edges_.resize(batch.edges.size());
  for (size_t i = 0; i < nodes_.size(); ++i) add(batch.nodes[i], nodes_[i]);
  for (size_t i = 0; i < edges_.size(); ++i) add(batch.edges[i], edges_[i]);
  add(batch.listed_edges, listed_edges_);
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
  for (size_t i = 0; i < nodes_.size(); ++i) {
    shape.nodes[i] = likely(shape.nodes[i], nodes_[i]);
  }
  for (size_t i = 0; i < edges_.size(); ++i) {
    shape.edges[i] = likely(shape.edges[i], edges_[i]);
  }
  shape.listed_edges = likely(shape.listed_edges, listed_edges_);
  return shape;
}

}  // namespace hearth::strategy
