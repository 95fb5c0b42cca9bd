#ifndef HEARTH_ENGINE_PLAN_PARTITION_FENNEL_H_
#define HEARTH_ENGINE_PLAN_PARTITION_FENNEL_H_

#include <cstdint>
#include <vector>

#include "engine/plan/partition/part_counts.h"
#include "engine/plan/partition/penalty_tree.h"

namespace hearth::plan {

/// The graph of a level, and the parts to make of it.
struct FennelInput {
  int64_t nodes = 0;
  int64_t training_nodes = 0;
  int64_t edges = 0;
  /// 1 .. kMaxLevelParts.
  int parts = 1;
};

/// The places that each part has for `count` nodes: a tenth more than its
/// share, rounded up.
int64_t PartCapacity(int64_t count, int parts);

/// Places the nodes of a stream into parts (FENNEL, Tsourakakis et al., WSDM
/// 2014, as OUTRE has it in section 5.2). Of N nodes, T training nodes and M
/// edges to make P parts of, node v goes to the part p with the highest
///
///     |N(v) in p| - (2 alpha |V_p| + sqrt(T_p)),   alpha = P M / N^2,
///
/// that is, gamma = 2 and a penalty for training nodes; of equal ones to the
/// first. A part takes no more than PartCapacity of N, and of T training
/// nodes; where no part takes a training node, the second limit is passed
/// over. Takes O(parts met + log P) a node. Single-owner.
class Fennel {
 public:
  explicit Fennel(const FennelInput& input);

  /// Places a node with these neighbors. REQUIRES: fewer than N are placed.
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

  // The part has another size.
  void Update(int part);

  const double alpha_;
  const int64_t node_capacity_;
  const int64_t training_capacity_;
  std::vector<Size> sizes_;
  // The penalties of the parts that take any node, and of those that take a
  // training node.
  PenaltyTree penalties_;
  PenaltyTree training_penalties_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_FENNEL_H_
