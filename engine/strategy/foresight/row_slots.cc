#include "engine/strategy/foresight/row_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"

namespace hearth::strategy {

RowSlots::RowSlots(cache::SlotArena arena, const store::RowFormat& format)
    : arena_(std::move(arena)),
      format_(format),
      nodes_(static_cast<size_t>(arena_.num_slots()), kFree) {}

absl::StatusOr<RowSlots> RowSlots::Make(int64_t num_slots,
                                        const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(
      cache::SlotArena arena,
      cache::SlotArena::Make(num_slots, format.row_bytes()));
  return RowSlots(std::move(arena), format);
}

uint64_t RowSlots::MemoryBytes(int64_t num_slots, int64_t row_bytes) {
  return static_cast<uint64_t>(num_slots) *
         (static_cast<uint64_t>(row_bytes) + sizeof(uint32_t));
}

uint64_t RowSlots::ArrangingBytes(int64_t num_slots, int64_t num_nodes) {
  return static_cast<uint64_t>(num_nodes) * sizeof(uint32_t) +
         static_cast<uint64_t>(num_slots) *
             (sizeof(uint32_t) + sizeof(Placed) + 1);
}

void RowSlots::Put(uint32_t node, uint32_t slot, const std::byte* row) {
  std::memcpy(arena_.row(slot), row, static_cast<size_t>(arena_.row_bytes()));
  nodes_[slot] = node;
}

void RowSlots::Move(uint32_t from, uint32_t to) {
  Put(nodes_[from], to, arena_.row(from));
}

// Each slot that changes takes its row from the slot that has it, so that slots
// form chains and rings. A chain begins with a slot whose row no slot wants;
// filling it from the next slot makes that one the beginning, up to a slot
// whose row is to be loaded. What is left are rings, each rotated by one row of
// memory.
absl::Status RowSlots::Arrange(absl::Span<const uint32_t> wanted,
                               int64_t num_nodes, Load load) {
  if (std::equal(wanted.begin(), wanted.end(), nodes_.begin(), nodes_.end())) {
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(static_cast<uint64_t>(num_nodes) *
                                  sizeof(uint32_t)));
  // The slot of each node.
  const absl::Span<uint32_t> slot_of(
      reinterpret_cast<uint32_t*>(memory.bytes().data()),
      static_cast<size_t>(num_nodes));
  std::fill(slot_of.begin(), slot_of.end(), kFree);
  for (size_t slot = 0; slot < nodes_.size(); ++slot) {
    if (nodes_[slot] != kFree) slot_of[nodes_[slot]] = slot;
  }
  // The slot from which each slot takes its row; itself if it has it, kFree if
  // the row is to be loaded, or none is wanted.
  std::vector<uint32_t> source(nodes_.size(), kFree);
  std::vector<bool> is_wanted(nodes_.size(), false);
  for (size_t slot = 0; slot < nodes_.size(); ++slot) {
    if (wanted[slot] == kFree) continue;
    source[slot] = slot_of[wanted[slot]];
    if (source[slot] != kFree) is_wanted[source[slot]] = true;
  }
  std::vector<Placed> missing;
  for (size_t slot = 0; slot < nodes_.size(); ++slot) {
    if (wanted[slot] != kFree && source[slot] == kFree) {
      missing.push_back(
          {.node = wanted[slot], .slot = static_cast<uint32_t>(slot)});
    }
  }
  for (size_t begin = 0; begin < nodes_.size(); ++begin) {
    if (is_wanted[begin]) continue;
    auto slot = static_cast<uint32_t>(begin);
    while (source[slot] != kFree) {
      const uint32_t from = source[slot];
      Move(from, slot);
      source[slot] = slot;
      nodes_[from] = kFree;
      slot = from;
    }
    nodes_[slot] = kFree;
  }
  std::vector<std::byte> row(static_cast<size_t>(arena_.row_bytes()));
  for (size_t begin = 0; begin < nodes_.size(); ++begin) {
    if (source[begin] == kFree || source[begin] == begin) continue;
    std::memcpy(row.data(), arena_.row(begin), row.size());
    const uint32_t node = nodes_[begin];
    auto slot = static_cast<uint32_t>(begin);
    while (source[slot] != begin) {
      const uint32_t from = source[slot];
      Move(from, slot);
      source[slot] = slot;
      slot = from;
    }
    Put(node, slot, row.data());
    source[slot] = slot;
  }
  if (missing.empty()) return absl::OkStatus();
  std::sort(missing.begin(), missing.end(),
            [](const Placed& a, const Placed& b) { return a.node < b.node; });
  HEARTH_RETURN_IF_ERROR(load(missing));
  for (const Placed& placed : missing) nodes_[placed.slot] = placed.node;
  return absl::OkStatus();
}

}  // namespace hearth::strategy
