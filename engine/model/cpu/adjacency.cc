#include "engine/model/cpu/adjacency.h"

#include <cmath>

#include "kernels/aggregate.h"

namespace hearth::model {
namespace {

// An adjacency of the block's size without edges, with capacity for them and
// for one self loop per destination.
Adjacency WithoutEdges(const sample::Block& block) {
  Adjacency result;
  result.num_sources = block.num_sources;
  result.num_destinations = block.num_destinations;
  result.indptr.reserve(block.indptr.size());
  result.indptr.push_back(0);
  result.indices.reserve(block.indices.size() + block.num_destinations);
  return result;
}

}  // namespace

Adjacency MeanAdjacency(const sample::Block& block) {
  Adjacency result;
  result.num_sources = block.num_sources;
  result.num_destinations = block.num_destinations;
  result.indptr = block.indptr;
  result.indices = block.indices;
  result.weights =
      block.weights.empty() ? MeanWeights(block.indptr) : block.weights;
  return result;
}

std::vector<float> MeanWeights(absl::Span<const int64_t> indptr) {
  std::vector<float> weights;
  weights.reserve(static_cast<size_t>(indptr.back()));
  for (size_t row = 0; row + 1 < indptr.size(); ++row) {
    const int64_t count = indptr[row + 1] - indptr[row];
    weights.insert(weights.end(), static_cast<size_t>(count),
                   1.0f / static_cast<float>(count));
  }
  return weights;
}

Adjacency SymmetricAdjacency(const sample::Block& block,
                             const SourceDegrees& degrees) {
  Adjacency result = WithoutEdges(block);
  result.weights.reserve(block.indices.size() + block.num_destinations);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const int64_t first = block.indptr[row];
    const int64_t end = block.indptr[row + 1];
    const double own = static_cast<double>(degrees.WithoutLoops(row)) + 1;
    const auto degree = static_cast<double>(degrees.in_degrees[row]);
    const double equal = end > first ? degree / (end - first) : 0;
    for (int64_t edge = first; edge < end; ++edge) {
      const int32_t source = block.indices[edge];
      if (source == row) continue;
      const double other =
          static_cast<double>(degrees.WithoutLoops(source)) + 1;
      const double scale =
          block.weights.empty() ? equal : degree * block.weights[edge];
      result.indices.push_back(source);
      result.weights.push_back(
          static_cast<float>(scale / std::sqrt(own * other)));
    }
    result.indices.push_back(static_cast<int32_t>(row));
    result.weights.push_back(static_cast<float>(1 / own));
    result.indptr.push_back(result.num_edges());
  }
  return result;
}

Adjacency SumAdjacency(const sample::Block& block) {
  Adjacency result = WithoutEdges(block);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    result.indices.insert(result.indices.end(),
                          block.indices.begin() + block.indptr[row],
                          block.indices.begin() + block.indptr[row + 1]);
    result.indices.push_back(static_cast<int32_t>(row));
    result.indptr.push_back(result.num_edges());
  }
  result.weights.assign(result.indices.size(), 1.0f);
  return result;
}

Adjacency SelfLoopAdjacency(const sample::Block& block) {
  Adjacency result = WithoutEdges(block);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      if (block.indices[edge] != row) {
        result.indices.push_back(block.indices[edge]);
      }
    }
    result.indices.push_back(static_cast<int32_t>(row));
    result.indptr.push_back(result.num_edges());
  }
  return result;
}

TransposedAdjacency Transpose(const Adjacency& adjacency) {
  TransposedAdjacency result;
  result.indptr.resize(adjacency.num_sources + 1);
  result.indices.resize(adjacency.indices.size());
  result.edges.resize(adjacency.indices.size());
  kernels::Transpose(
      {.indptr = adjacency.indptr.data(), .indices = adjacency.indices.data()},
      adjacency.num_destinations, adjacency.num_sources,
      {.indptr = result.indptr.data(),
       .indices = result.indices.data(),
       .edges = result.edges.data()});
  return result;
}

std::vector<int64_t> BalancedRanges(absl::Span<const int64_t> indptr,
                                    int64_t parts) {
  const auto rows = static_cast<int64_t>(indptr.size()) - 1;
  const int64_t total = rows + indptr[rows];
  std::vector<int64_t> bounds(parts + 1, rows);
  bounds[0] = 0;
  int64_t row = 0;
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t target = total / parts * part;
    while (row < rows && row + indptr[row] < target) ++row;
    bounds[part] = row;
  }
  return bounds;
}

}  // namespace hearth::model
