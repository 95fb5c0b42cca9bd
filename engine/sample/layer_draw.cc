#include "engine/sample/layer_draw.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "engine/base/random.h"

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr int32_t kDropped = -1;

// q of each source: more where it feeds destinations with few in-neighbors.
void AddImportance(const Block& block, std::vector<double>& importance) {
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const auto degree =
        static_cast<double>(block.indptr[row + 1] - block.indptr[row]);
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      importance[block.indices[edge]] += 1 / (degree * degree);
    }
  }
}

// Weights of the edges from `begin` on, in proportion to `parts`, of sum 1.
void AppendNormalized(const std::vector<double>& parts,
                      std::vector<float>& weights) {
  double sum = 0;
  for (const double part : parts) sum += part;
  for (const double part : parts) {
    weights.push_back(static_cast<float>(part / sum));
  }
}

}  // namespace

void LayerDraw::Thin(const Key& key, int64_t count, std::vector<NodeId>& nodes,
                     Block& block) {
  importance_.assign(nodes.size(), 0);
  AddImportance(block, importance_);
  Rank(key, nodes);
  if (std::ssize(candidates_) <= count) return;
  const auto precedes = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.rank, a.position) < std::tie(b.rank, b.position);
  };
  std::nth_element(candidates_.begin(), candidates_.begin() + count,
                   candidates_.end(), precedes);
  candidates_.resize(count);
  new_positions_.assign(nodes.size(), kDropped);
  for (const Candidate& drawn : candidates_) {
    new_positions_[drawn.position] = drawn.position;
  }
  std::vector<NodeId> kept(nodes.begin(),
                           nodes.begin() + block.num_destinations);
  for (size_t position = block.num_destinations; position < nodes.size();
       ++position) {
    if (new_positions_[position] == kDropped) continue;
    new_positions_[position] = static_cast<int32_t>(kept.size());
    kept.push_back(nodes[position]);
  }
  Block thin = {.num_sources = std::ssize(kept),
                .num_destinations = block.num_destinations};
  thin.indptr.reserve(block.indptr.size());
  thin.indptr.push_back(0);
  std::vector<double> parts;
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    parts.clear();
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      const int32_t position = block.indices[edge];
      if (new_positions_[position] == kDropped) continue;
      thin.indices.push_back(new_positions_[position]);
      parts.push_back(1 / importance_[position]);
    }
    AppendNormalized(parts, thin.weights);
    thin.indptr.push_back(std::ssize(thin.indices));
  }
  nodes = std::move(kept);
  block = std::move(thin);
}

// All sources that have an edge, with what decides whether they are drawn.
void LayerDraw::Rank(const Key& key, const std::vector<NodeId>& nodes) {
  candidates_.clear();
  for (size_t position = 0; position < nodes.size(); ++position) {
    if (importance_[position] == 0) continue;
    // Node ids are below 2^48, so that layer and node share a coordinate.
    RandomStream random(key.data_seed, RandomPurpose::kLayerSampling,
                        key.batch.epoch_key, key.batch.batch,
                        static_cast<uint64_t>(key.layer) << 48 |
                            static_cast<uint64_t>(nodes[position]));
    // Within (0, 1).
    const double x =
        (static_cast<double>(random.Next64() >> 11) + 0.5) * 0x1p-53;
    candidates_.push_back({.rank = -std::log(x) / importance_[position],
                           .position = static_cast<int32_t>(position)});
  }
}

}  // namespace hearth::sample
