#include "engine/strategy/outre/macro_batch_lists.h"

#include <bit>
#include <type_traits>
#include <utility>
#include <variant>

#include "engine/base/status_macros.h"

namespace hearth::strategy {

using store::NodeId;

size_t MacroBatchLists::NumSlots(int64_t num_nodes) {
  const auto nodes = static_cast<size_t>(num_nodes);
  return std::bit_ceil(nodes + nodes / 3 + 2);
}

MacroBatchLists::MacroBatchLists(int64_t num_nodes)
    : slots_(NumSlots(num_nodes)),
      shift_(64 - std::countr_zero(slots_.size())) {}

absl::StatusOr<std::unique_ptr<const MacroBatchLists>> MacroBatchLists::Read(
    const plan::Partition& partition, absl::Span<const uint16_t> parts) {
  int64_t num_nodes = 0;
  for (const uint16_t part : parts) num_nodes += partition.num_nodes(part);
  std::unique_ptr<MacroBatchLists> lists(new MacroBatchLists(num_nodes));
  for (const uint16_t part : parts) {
    HEARTH_ASSIGN_OR_RETURN(plan::PartLists read, partition.ReadPart(part));
    lists->Add(std::move(read));
  }
  return lists;
}

uint64_t MacroBatchLists::MemoryBytes(const plan::Partition& partition,
                                      absl::Span<const uint16_t> parts) {
  int64_t num_nodes = 0;
  uint64_t bytes = 0;
  for (const uint16_t part : parts) {
    num_nodes += partition.num_nodes(part);
    bytes += partition.part_list_bytes(part);
  }
  return bytes + NumSlots(num_nodes) * sizeof(Slot);
}

uint64_t MacroBatchLists::memory_bytes() const {
  uint64_t bytes = slots_.size() * sizeof(Slot);
  for (const plan::PartLists& part : parts_)
    bytes += part.memory.bytes().size();
  return bytes;
}

void MacroBatchLists::Add(plan::PartLists part) {
  std::visit(
      [&](const auto nodes, const auto neighbors) {
        using Neighbor = typename decltype(neighbors)::value_type;
        wide_ = std::is_same_v<std::remove_const_t<Neighbor>, int64_t>;
        for (size_t i = 0; i < nodes.size(); ++i) {
          const int64_t begin = i == 0 ? 0 : part.ends[i - 1];
          Add(nodes[i], neighbors.data() + begin);
        }
      },
      part.nodes, part.neighbors);
  parts_.push_back(std::move(part));
}

void MacroBatchLists::Add(NodeId node, const void* list) {
  size_t at = Home(node);
  while (slots_[at].node != kNone) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {.node = node, .list = list};
}

std::optional<sample::NeighborList> MacroBatchLists::Find(NodeId node) const {
  for (size_t at = Home(node);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.node == kNone) return std::nullopt;
    if (slot.node != node) continue;
    return wide_ ? sample::NeighborList(static_cast<const int64_t*>(slot.list))
                 : sample::NeighborList(static_cast<const int32_t*>(slot.list));
  }
}

}  // namespace hearth::strategy
