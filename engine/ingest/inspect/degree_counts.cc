#include "engine/ingest/inspect/degree_counts.h"

namespace hearth::ingest {
namespace {

// Small beside an import's least memory limit.
constexpr uint64_t kLowDegrees = 1 << 12;

}  // namespace

void DegreeCounts::Add(uint64_t degree) {
  ++num_nodes_;
  num_edges_ += degree;
  if (degree >= kLowDegrees) {
    ++high_[degree];
    return;
  }
  if (degree >= low_.size()) low_.resize(degree + 1);
  ++low_[degree];
}

uint64_t DegreeCounts::NumOf(uint64_t degree) const {
  if (degree < low_.size()) return low_[degree];
  const auto found = high_.find(degree);
  return found == high_.end() ? 0 : found->second;
}

double DegreeCounts::Mean() const {
  if (num_nodes_ == 0) return 0;
  return static_cast<double>(num_edges_) / static_cast<double>(num_nodes_);
}

uint64_t DegreeCounts::Percentile(uint64_t percent) const {
  if (num_nodes_ == 0) return 0;
  // Rounded up, without the product that could overflow.
  const uint64_t wanted =
      num_nodes_ / 100 * percent + (num_nodes_ % 100 * percent + 99) / 100;
  uint64_t seen = 0;
  for (uint64_t degree = 0; degree < low_.size(); ++degree) {
    seen += low_[degree];
    if (seen >= wanted) return degree;
  }
  for (const auto& [degree, count] : high_) {
    seen += count;
    if (seen >= wanted) return degree;
  }
  return high_.rbegin()->first;
}

}  // namespace hearth::ingest
