#ifndef HEARTH_ENGINE_PLAN_PARTITION_PART_COUNTS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PART_COUNTS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace hearth::plan {

/// Parts that one level of partitioning makes, at most: the square root of all.
inline constexpr int kMaxLevelParts = 256;

/// How many neighbors of one node are in each part of a level. Costs what the
/// parts cost that are met, not what there are. Single-owner.
class PartCounts {
 public:
  void Add(int part, int64_t count = 1) {
    counts_[static_cast<size_t>(part)] += count;
    met_[static_cast<size_t>(part) / 64] |= uint64_t{1} << (part % 64);
  }

  int64_t operator[](int part) const {
    return counts_[static_cast<size_t>(part)];
  }

  /// Calls `visit(part, count)` for the parts that were met, ascending.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (int word = 0; word < kMaxLevelParts / 64; ++word) {
      for (uint64_t left = met_[static_cast<size_t>(word)]; left != 0;
           left &= left - 1) {
        const int part = word * 64 + std::countr_zero(left);
        visit(part, counts_[static_cast<size_t>(part)]);
      }
    }
  }

  /// All are 0.
  void Clear() {
    ForEach(
        [this](int part, int64_t) { counts_[static_cast<size_t>(part)] = 0; });
    met_ = {};
  }

 private:
  std::array<int64_t, kMaxLevelParts> counts_ = {};
  // A bit for each part.
  std::array<uint64_t, kMaxLevelParts / 64> met_ = {};
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PART_COUNTS_H_
