#include "engine/plan/partition/fennel.h"

#include <algorithm>
#include <cmath>

namespace hearth::plan {
namespace {

double Alpha(const FennelInput& input) {
  const auto nodes = static_cast<double>(std::max<int64_t>(input.nodes, 1));
  return static_cast<double>(input.parts) * static_cast<double>(input.edges) /
         (nodes * nodes);
}

}  // namespace

int64_t PartCapacity(int64_t count, int parts) {
  const int64_t tenths = 10 * int64_t{parts};
  return count / tenths * 11 + (count % tenths * 11 + tenths - 1) / tenths;
}

Fennel::Fennel(const FennelInput& input)
    : alpha_(Alpha(input)),
      node_capacity_(PartCapacity(input.nodes, input.parts)),
      training_capacity_(PartCapacity(input.training_nodes, input.parts)),
      sizes_(static_cast<size_t>(input.parts)),
      penalties_(input.parts),
      training_penalties_(input.parts) {
  for (int part = 0; part < input.parts; ++part) Update(part);
}

int Fennel::Place(const PartCounts& neighbors, bool is_training) {
  const bool training_fits =
      training_penalties_[training_penalties_.lowest()] != PenaltyTree::kClosed;
  const PenaltyTree& penalties =
      is_training && training_fits ? training_penalties_ : penalties_;
  // The best part without neighbors is the one with the lowest penalty.
  int best = penalties.lowest();
  double best_score = static_cast<double>(neighbors[best]) - penalties[best];
  neighbors.ForEach([&](int part, int64_t count) {
    const double score = static_cast<double>(count) - penalties[part];
    if (score > best_score || (score == best_score && part < best)) {
      best = part;
      best_score = score;
    }
  });
  ++sizes_[best].nodes;
  sizes_[best].training_nodes += is_training ? 1 : 0;
  Update(best);
  return best;
}

void Fennel::Remove(int part, bool is_training) {
  --sizes_[part].nodes;
  sizes_[part].training_nodes -= is_training ? 1 : 0;
  Update(part);
}

void Fennel::Update(int part) {
  const Size& size = sizes_[part];
  const double penalty =
      size.nodes >= node_capacity_
          ? PenaltyTree::kClosed
          : 2 * alpha_ * static_cast<double>(size.nodes) +
                std::sqrt(static_cast<double>(size.training_nodes));
  penalties_.Set(part, penalty);
  training_penalties_.Set(part, size.training_nodes >= training_capacity_
                                    ? PenaltyTree::kClosed
                                    : penalty);
}

}  // namespace hearth::plan
