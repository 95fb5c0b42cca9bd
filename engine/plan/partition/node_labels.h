#ifndef HEARTH_ENGINE_PLAN_PARTITION_NODE_LABELS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_NODE_LABELS_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// A number for each node, 0 at first. Any thread may read and write any of
/// them at any time: who reads what another thread writes gets one of the two.
/// Thread-safe.
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

  /// All of them. REQUIRES: nobody writes.
  absl::Span<const Label> all() const {
    return {data(), memory_.bytes().size() / sizeof(Label)};
  }
  absl::Span<Label> all() {
    return {data(), memory_.bytes().size() / sizeof(Label)};
  }

 private:
  explicit NodeLabels(io::AlignedMemory memory) : memory_(std::move(memory)) {}

  Label* data() const {
    // An atomic_ref wants what it reads to be writable.
    return reinterpret_cast<Label*>(
        const_cast<std::byte*>(memory_.bytes().data()));
  }

  io::AlignedMemory memory_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_NODE_LABELS_H_
