#ifndef HEARTH_ENGINE_SAMPLE_NEIGHBOR_LISTS_H_
#define HEARTH_ENGINE_SAMPLE_NEIGHBOR_LISTS_H_

#include <cstdint>
#include <optional>

#include "engine/store/topology.h"

namespace hearth::sample {

/// All in-neighbors of a node, in the topology's order. A view.
class NeighborList {
 public:
  explicit NeighborList(const int32_t* first) : narrow_(first) {}
  explicit NeighborList(const int64_t* first) : wide_(first) {}

  /// The i-th. REQUIRES: i is below the node's in-degree.
  store::NodeId operator[](int64_t i) const {
    return narrow_ != nullptr ? narrow_[i] : wide_[i];
  }

 private:
  // One of them is null.
  const int32_t* narrow_ = nullptr;
  const int64_t* wide_ = nullptr;
};

/// Whole lists of some nodes, in memory. Immutable; thread-safe.
class NeighborLists {
 public:
  virtual ~NeighborLists() = default;

  /// The list of `node`, valid as long as this is there; none if it is not
  /// inside.
  virtual std::optional<NeighborList> Find(store::NodeId node) const = 0;

  /// Asks the processor for what Find(node) will look at first.
  virtual void Prefetch(store::NodeId node) const = 0;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_NEIGHBOR_LISTS_H_
