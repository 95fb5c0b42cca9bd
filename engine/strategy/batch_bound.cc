#include "engine/strategy/batch_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::strategy {
namespace {

std::vector<int64_t> AddMargin(const std::vector<int64_t>& largest,
                               const std::vector<int64_t>& bound) {
  std::vector<int64_t> numbers(largest.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::min(bound[i], largest[i] + largest[i] / 8);
  }
  return numbers;
}

}  // namespace

sample::BatchShape BatchBound::WithMargin() const {
  return {.nodes = AddMargin(largest.nodes, bound.nodes),
          .edges = AddMargin(largest.edges, bound.edges)};
}

}  // namespace hearth::strategy
