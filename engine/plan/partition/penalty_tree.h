#ifndef HEARTH_ENGINE_PLAN_PARTITION_PENALTY_TREE_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PENALTY_TREE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hearth::plan {

/// A penalty for each part, and the part with the lowest one, of equal ones the
/// first. A tournament: a change costs the logarithm of the parts.
/// Single-owner.
class PenaltyTree {
 public:
  /// The penalty of a part that takes no more nodes.
  static constexpr double kClosed = std::numeric_limits<double>::infinity();

  /// All are closed. REQUIRES: parts > 0.
  explicit PenaltyTree(int parts)
      : leaves_(std::bit_ceil(static_cast<size_t>(parts))),
        penalties_(leaves_, kClosed),
        winners_(2 * leaves_) {
    for (size_t leaf = 0; leaf < leaves_; ++leaf) {
      winners_[leaves_ + leaf] = static_cast<int>(leaf);
    }
    for (size_t at = leaves_ - 1; at > 0; --at) winners_[at] = Winner(at);
  }

  void Set(int part, double penalty) {
    penalties_[static_cast<size_t>(part)] = penalty;
    for (size_t at = (leaves_ + static_cast<size_t>(part)) / 2; at > 0;
         at /= 2) {
      winners_[at] = Winner(at);
    }
  }

  double operator[](int part) const {
    return penalties_[static_cast<size_t>(part)];
  }

  /// The first part with the lowest penalty.
  int lowest() const { return winners_[1]; }

 private:
  // The one of the two below with the lower penalty.
  int Winner(size_t at) const {
    const int left = winners_[2 * at];
    const int right = winners_[2 * at + 1];
    return penalties_[static_cast<size_t>(left)] <=
                   penalties_[static_cast<size_t>(right)]
               ? left
               : right;
  }

  size_t leaves_;
  std::vector<double> penalties_;
  // A tree in an array: node i stands above 2i and 2i + 1; 1 is the root.
  std::vector<int> winners_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PENALTY_TREE_H_
