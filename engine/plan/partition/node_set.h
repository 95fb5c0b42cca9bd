#ifndef HEARTH_ENGINE_PLAN_PARTITION_NODE_SET_H_
#define HEARTH_ENGINE_PLAN_PARTITION_NODE_SET_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// A set of nodes: a bit for each that there is. Immutable; thread-safe.
class NodeSet {
 public:
  /// RESOURCE_EXHAUSTED without memory. REQUIRES: 0 <= each of them < `nodes`.
  static absl::StatusOr<NodeSet> Make(absl::Span<const store::NodeId> members,
                                      int64_t nodes) {
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory memory,
        io::AlignedMemory::Allocate(static_cast<uint64_t>(nodes) / 8 + 1));
    for (const store::NodeId node : members) {
      memory.bytes()[static_cast<uint64_t>(node) / 8] |= Bit(node);
    }
    return NodeSet(std::move(memory));
  }

  bool Contains(store::NodeId node) const {
    return (memory_.bytes()[static_cast<uint64_t>(node) / 8] & Bit(node)) !=
           std::byte{0};
  }

 private:
  explicit NodeSet(io::AlignedMemory memory) : memory_(std::move(memory)) {}

  static std::byte Bit(store::NodeId node) {
    return std::byte{1} << (node % 8);
  }

  io::AlignedMemory memory_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_NODE_SET_H_
