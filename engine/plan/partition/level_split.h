#ifndef HEARTH_ENGINE_PLAN_PARTITION_LEVEL_SPLIT_H_
#define HEARTH_ENGINE_PLAN_PARTITION_LEVEL_SPLIT_H_

#include <cmath>

namespace hearth::plan {

/// The parts of the two levels (OUTRE, section 5.2): the first makes the square
/// root of all, rounded up; of each, the second makes as many as of any other,
/// or one more, so that they are all.
class LevelSplit {
 public:
  /// REQUIRES: 0 < parts <= PartitionOptions::kMaxParts.
  explicit LevelSplit(int parts)
      : parts_(parts),
        first_parts_(static_cast<int>(std::ceil(std::sqrt(parts)))) {}

  int parts() const { return parts_; }
  int first_parts() const { return first_parts_; }

  /// Parts that are made of first-level part `first`.
  int second_parts(int first) const { return begin(first + 1) - begin(first); }

  /// The number of the first of them.
  int begin(int first) const {
    const int more = parts_ % first_parts_;
    return parts_ / first_parts_ * first + (first < more ? first : more);
  }

 private:
  int parts_;
  int first_parts_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_LEVEL_SPLIT_H_
