#ifndef HEARTH_ENGINE_PLAN_PARTITION_NODE_ARRAYS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_NODE_ARRAYS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

/// Arrays of node ids, sets of nodes, and numbers of nodes in memory. Ids on
/// disk are little-endian, of 4 bytes where they fit, else of 8.

namespace hearth::plan {

/// Bytes of an id on disk in a graph of `nodes` nodes, as in an imported
/// dataset.
inline int IdBytes(int64_t nodes) {
  return nodes <= int64_t{std::numeric_limits<int32_t>::max()} ? 4 : 8;
}

namespace id_internal {

template <typename Id>
void Decode(const std::byte* from, size_t count, store::NodeId* to) {
  for (size_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    to[i] = id;
  }
}

template <typename Id>
void Encode(const store::NodeId* from, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<Id>(from[i]);
    std::memcpy(to + i * sizeof(Id), &id, sizeof(Id));
  }
}

}  // namespace id_internal

inline void DecodeIds(const std::byte* from, size_t count, int id_bytes,
                      store::NodeId* to) {
  if (id_bytes == 4) {
    id_internal::Decode<int32_t>(from, count, to);
  } else {
    id_internal::Decode<int64_t>(from, count, to);
  }
}

inline void EncodeIds(const store::NodeId* from, size_t count, int id_bytes,
                      std::byte* to) {
  if (id_bytes == 4) {
    id_internal::Encode<int32_t>(from, count, to);
  } else {
    id_internal::Encode<int64_t>(from, count, to);
  }
}

/// A set of nodes, with one bit per node of the graph. Immutable; thread-safe.
class NodeSet {
 public:
  /// RESOURCE_EXHAUSTED without memory. REQUIRES: 0 <= each member < `nodes`.
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

/// A number for each node, 0 at first. Any thread may read and write any number
/// at any time: a concurrent read gives the old or the new number. Thread-safe.
template <typename Label>
class NodeLabels {
 public:
  /// RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<NodeLabels> Make(int64_t nodes) {
    HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                            io::AlignedMemory::Allocate(
                                static_cast<uint64_t>(nodes) * sizeof(Label)));
    return NodeLabels(std::move(memory));
  }

  NodeLabels() = default;

  Label Get(store::NodeId node) const {
    return std::atomic_ref<Label>(data()[node]).load(std::memory_order_relaxed);
  }

  void Set(store::NodeId node, Label label) {
    std::atomic_ref<Label>(data()[node])
        .store(label, std::memory_order_relaxed);
  }

  /// The numbers of all nodes. REQUIRES: nobody writes.
  absl::Span<const Label> all() const {
    return {data(), memory_.bytes().size() / sizeof(Label)};
  }
  absl::Span<Label> all() {
    return {data(), memory_.bytes().size() / sizeof(Label)};
  }

 private:
  explicit NodeLabels(io::AlignedMemory memory) : memory_(std::move(memory)) {}

  Label* data() const {
    // An atomic_ref needs a writable object even to read it.
    return reinterpret_cast<Label*>(
        const_cast<std::byte*>(memory_.bytes().data()));
  }

  io::AlignedMemory memory_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_NODE_ARRAYS_H_
