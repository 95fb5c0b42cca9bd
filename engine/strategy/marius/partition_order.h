#ifndef HEARTH_ENGINE_STRATEGY_MARIUS_PARTITION_ORDER_H_
#define HEARTH_ENGINE_STRATEGY_MARIUS_PARTITION_ORDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/random.h"

/// Orders in which sets of partitions are in memory, one after the other: for
/// training examples that are nodes (RandomSet, DispersedOrder) and for those
/// that are pairs of nodes, such as edges (BetaOrder, CometOrder). Pure
/// functions of their random numbers.
///
/// Marius: Mohoney et al., "Marius: Learning Massive Graph Embeddings on a
/// Single Machine", OSDI 2021, section 4. MariusGNN: Waleffe et al.,
/// "MariusGNN: Resource-Efficient Out-of-Core Training of Graph Neural
/// Networks", EuroSys 2023, section 5.

namespace hearth::strategy {

/// Partitions, by number, that are in memory at the same time; distinct,
/// ascending.
using PartitionSet = std::vector<int32_t>;

/// Partitions that are loaded if the sets are in memory one after the other,
/// beginning with nothing in memory.
int64_t CountLoads(const std::vector<PartitionSet>& sets);

/// `count` of the partitions 0 .. partitions - 1, drawn uniformly: what
/// MariusGNN has in memory beside the training nodes for an epoch of node
/// classification. REQUIRES: 0 <= count <= partitions.
PartitionSet RandomSet(int32_t partitions, int32_t count, RandomStream& random);

/// An order in which each partition is loaded once: a random set of `capacity`
/// partitions, from which random ones make room for `step` others, drawn at
/// random, until all were in memory. The last step may be shorter. For training
/// nodes that do not all fit into memory. REQUIRES: 1 <= step <= capacity.
std::vector<PartitionSet> DispersedOrder(int32_t partitions, int32_t capacity,
                                         int32_t step, RandomStream& random);

/// BETA (Marius, section 4): an order in which each two partitions are in
/// memory together at some time, and consecutive sets differ by one partition.
/// `capacity` - 1 partitions stay while all others come and go, then never
/// return. Which partition takes which part is random. REQUIRES: capacity >= 2,
/// or no more than one partition.
std::vector<PartitionSet> BetaOrder(int32_t partitions, int32_t capacity,
                                    RandomStream& random);

/// A lower bound of CountLoads for any order in which each two partitions meet,
/// where partitions come one by one (Marius, section 4): each but the first
/// `capacity` meets at most capacity - 1 others as it comes.
int64_t LeastPairLoads(int32_t partitions, int32_t capacity);

/// COMET (MariusGNN, section 5): BETA over logical partitions, each of `group`
/// physical partitions that are put together at random, so that another epoch
/// has other groups. The last group may be smaller. REQUIRES: group >= 1;
/// capacity / group >= 2, or no more than `capacity` partitions.
std::vector<PartitionSet> CometOrder(int32_t partitions, int32_t capacity,
                                     int32_t group, RandomStream& random);

/// Ordered pairs of partitions (the edges from nodes of one to nodes of the
/// other).
using PartitionPairs = std::vector<std::pair<int32_t, int32_t>>;

/// For each set of `sets`, the pairs whose edges are trained on while it is in
/// memory: each pair, also of a partition with itself, goes to one of the sets
/// that have both, drawn uniformly (the deferred assignment of COMET,
/// MariusGNN, section 5), instead of the first, as with BETA. Pairs that never
/// meet are left out.
std::vector<PartitionPairs> AssignPairs(const std::vector<PartitionSet>& sets,
                                        int32_t partitions,
                                        RandomStream& random);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MARIUS_PARTITION_ORDER_H_
