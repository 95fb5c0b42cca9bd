#ifndef HEARTH_ENGINE_PLAN_PARTITION_FENNEL_H_
#define HEARTH_ENGINE_PLAN_PARTITION_FENNEL_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

/// Decides to which part a node goes. No I/O, no threads.

namespace hearth::plan {

/// Upper bound of the parts that one level makes: the square root of kMaxParts.
inline constexpr int kMaxLevelParts = 256;

/// Number of neighbors of one node in each part of a level. Clearing and
/// visiting cost time per part met, not per part. Single-owner.
class PartCounts {
 public:
  void Add(int part, int64_t count = 1) {
    counts_[static_cast<size_t>(part)] += count;
    met_[static_cast<size_t>(part) / 64] |= uint64_t{1} << (part % 64);
  }

  int64_t operator[](int part) const {
    return counts_[static_cast<size_t>(part)];
  }

  /// Calls `visit(part, count)` for each part that was met, ascending.
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

  /// Sets all counts to 0.
  void Clear() {
    ForEach(
        [this](int part, int64_t) { counts_[static_cast<size_t>(part)] = 0; });
    met_ = {};
  }

 private:
  std::array<int64_t, kMaxLevelParts> counts_ = {};
  // One bit for each part that was met.
  std::array<uint64_t, kMaxLevelParts / 64> met_ = {};
};

/// Penalty of each part, and the part with the lowest penalty, the first of
/// equals. A tournament tree: a change costs the logarithm of the number of
/// parts. Single-owner.
class MinTree {
 public:
  /// Penalty of a part that takes no more nodes.
  static constexpr double kClosed = std::numeric_limits<double>::infinity();

  /// All parts are closed. REQUIRES: parts > 0.
  explicit MinTree(int parts)
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
  // Of the two children of node `at`, the one with the lower penalty.
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
  // A tree in an array: node i is the parent of 2i and 2i + 1; 1 is the root.
  std::vector<int> winners_;
};

/// Sizes of a level's graph, and the number of parts to make of it.
struct FennelInput {
  int64_t nodes = 0;
  int64_t training_nodes = 0;
  int64_t edges = 0;
  /// 1 .. kMaxLevelParts.
  int parts = 1;
};

/// Upper bound of a part's nodes, for `count` nodes in all: a tenth more than
/// its share, rounded up.
int64_t PartCapacity(int64_t count, int parts);

/// Places the nodes of a stream into parts (FENNEL, Tsourakakis et al., WSDM
/// 2014, as OUTRE has it in section 5.2). With N nodes, T training nodes, M
/// edges and P parts, node v goes to the part p with the highest
///
///     |N(v) in p| - (2 alpha |V_p| + sqrt(T_p)),   alpha = P M / N^2,
///
/// that is, gamma = 2 and a penalty for training nodes; ties go to the first
/// part. A part takes at most PartCapacity of N nodes, and of T training nodes;
/// where no part takes a training node, the second limit is ignored. Takes
/// O(parts met + log P) per node. Single-owner.
class Fennel {
 public:
  explicit Fennel(const FennelInput& input);

  /// Places a node with these neighbors and returns its part. REQUIRES: fewer
  /// than N nodes are placed.
  int Place(const PartCounts& neighbors, bool is_training);

  /// Takes a node out of its part again.
  void Remove(int part, bool is_training);

  int parts() const { return static_cast<int>(sizes_.size()); }
  int64_t nodes(int part) const { return sizes_[part].nodes; }
  int64_t training_nodes(int part) const { return sizes_[part].training_nodes; }

 private:
  struct Size {
    int64_t nodes = 0;
    int64_t training_nodes = 0;
  };

  // Updates the penalties of a part whose size has changed.
  void Update(int part);

  const double alpha_;
  const int64_t node_capacity_;
  const int64_t training_capacity_;
  std::vector<Size> sizes_;
  // Penalties of parts for any node, and for a training node.
  MinTree penalties_;
  MinTree training_penalties_;
};

/// Bloom filters, one for the nodes of each part (OUTRE, section 5.2), for
/// PartCapacity nodes each and a rate of false positives of 0.1. All filters
/// have equal sizes and hashes, and bit i of all of them is stored together, so
/// that one probe asks them all. Thread-compatible.
class BloomFilters {
 public:
  static constexpr double kFalsePositives = 0.1;

  /// Bytes of the filters for the parts of a level: 5.3 bits per node, where
  /// parts are not tiny.
  static uint64_t Bytes(int64_t nodes, int parts);

  /// RESOURCE_EXHAUSTED without memory. REQUIRES: 0 < parts <= kMaxLevelParts.
  static absl::StatusOr<BloomFilters> Make(int64_t nodes, int parts);

  void Insert(store::NodeId node, int part);

  /// Adds 1 to `counts` for each part that the node seems to be in: the part in
  /// which it is, and at times others.
  void Count(store::NodeId node, PartCounts& counts) const;

 private:
  static constexpr int kHashes = 3;
  // The bits of all parts may touch this many words and one more.
  static constexpr int kMaxWords = kMaxLevelParts / 64;

  BloomFilters(int64_t rows, int parts, io::AlignedMemory memory)
      : rows_(rows), parts_(parts), memory_(std::move(memory)) {}

  // Index of the first bit in the rows that the node's hashes name.
  std::array<uint64_t, kHashes> Places(store::NodeId node) const;

  uint64_t* words() {
    return reinterpret_cast<uint64_t*>(memory_.bytes().data());
  }
  const uint64_t* words() const {
    return reinterpret_cast<const uint64_t*>(memory_.bytes().data());
  }

  // Bits of one filter.
  int64_t rows_;
  int parts_;
  // rows_ times parts_ bits, concatenated.
  io::AlignedMemory memory_;
};

/// Numbers of parts in the two levels (OUTRE, section 5.2): the first level
/// makes the square root of all parts, rounded up; the second splits each of
/// these into equally many, or one more, so that all parts are made.
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

  /// Number of the first part made of first-level part `first`.
  int begin(int first) const {
    const int more = parts_ % first_parts_;
    return parts_ / first_parts_ * first + (first < more ? first : more);
  }

 private:
  int parts_;
  int first_parts_;
};

/// A level ends after this many rounds without more inner edges than any round
/// before.
inline constexpr int kMaxStalledRounds = 3;

/// Calls `place(again)` up to `rounds` times, where `again` is false the first
/// time, and returns the number of calls. `count_inner` gives the inner edges
/// after each but the last.
inline absl::StatusOr<int> MakeRounds(
    int rounds, absl::FunctionRef<absl::Status(bool again)> place,
    absl::FunctionRef<absl::StatusOr<int64_t>()> count_inner) {
  int64_t most = -1;
  int stalled = 0;
  int made = 0;
  while (made < rounds && stalled < kMaxStalledRounds) {
    HEARTH_RETURN_IF_ERROR(place(made > 0));
    ++made;
    if (made == rounds) break;
    HEARTH_ASSIGN_OR_RETURN(const int64_t inner, count_inner());
    stalled = inner > most ? 0 : stalled + 1;
    most = inner > most ? inner : most;
  }
  return made;
}

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_FENNEL_H_
