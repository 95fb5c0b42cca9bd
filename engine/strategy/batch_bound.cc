#include "engine/strategy/batch_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::strategy {
namespace {

int64_t AddMargin(int64_t largest, int64_t bound) {
  return std::min(bound, largest + largest / 8);
}

std::vector<int64_t> AddMargins(const std::vector<int64_t>& largest,
                                const std::vector<int64_t>& bound) {
  std::vector<int64_t> numbers(largest.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = AddMargin(largest[i], bound[i]);
  }
  return numbers;
}

}  // namespace

sample::BatchShape BatchBound::WithMargin() const {
  return {.nodes = AddMargins(largest.nodes, bound.nodes),
          .edges = AddMargins(largest.edges, bound.edges),
          .listed_edges = AddMargin(largest.listed_edges, bound.listed_edges),
          .types_per_node = bound.types_per_node};
}

}  // namespace hearth::strategy
