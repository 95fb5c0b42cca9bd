#include "engine/ingest/generate/rmat_recursion.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hearth::ingest {
namespace {

constexpr double kThresholdScale = 1 << 22;

/// The product of the quarters' probabilities on the way to `cell`.
double CellProbability(const RmatGraph& graph, uint32_t cell) {
  const double rest = std::max(0.0, 1 - graph.a - graph.b - graph.c);
  const std::array<double, 4> quarters = {graph.a, graph.b, graph.c, rest};
  const uint32_t row = cell >> kRmatLevels;
  double probability = 1;
  for (int level = 0; level < kRmatLevels; ++level) {
    const uint32_t lower = row >> level & 1;
    const uint32_t right = cell >> level & 1;
    probability *= quarters[lower * 2 + right];
  }
  return probability;
}

}  // namespace

RmatRecursion::RmatRecursion(const RmatGraph& graph) {
  std::array<double, kRmatCells> share;
  std::vector<uint32_t> small;
  std::vector<uint32_t> large;
  for (uint32_t cell = 0; cell < kRmatCells; ++cell) {
    share[cell] = CellProbability(graph, cell) * kRmatCells;
    (share[cell] < 1 ? small : large).push_back(cell);
  }
  // Each small cell's entry is filled up by a large one.
  while (!small.empty() && !large.empty()) {
    const uint32_t less = small.back();
    small.pop_back();
    const uint32_t more = large.back();
    table_[less] = {
        static_cast<uint32_t>(std::lround(share[less] * kThresholdScale)),
        more};
    share[more] -= 1 - share[less];
    if (share[more] >= 1) continue;
    large.pop_back();
    small.push_back(more);
  }
  // The rest differs from 1 by rounding alone.
  for (const std::vector<uint32_t>& rest : {small, large}) {
    for (const uint32_t cell : rest) {
      table_[cell] = {static_cast<uint32_t>(kThresholdScale), cell};
    }
  }
}

double RmatRecursion::ProbabilityOf(uint32_t cell) const {
  double weight = 0;
  for (uint32_t i = 0; i < kRmatCells; ++i) {
    const double own = table_[i].threshold;
    if (i == cell) weight += own;
    if (table_[i].alias == cell) weight += kThresholdScale - own;
  }
  return weight / kThresholdScale / kRmatCells;
}

}  // namespace hearth::ingest
