#include "engine/strategy/foresight/row_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"

namespace hearth::strategy {

RowSlots::RowSlots(cache::SlotArena arena, const store::RowFormat& format)
    : arena_(std::move(arena)),
      format_(format),
      nodes_(static_cast<size_t>(arena_.num_slots()), kFree) {}

std::vector<RowSlots::Placed> RowSlots::ByNode(
    absl::Span<const uint32_t> nodes) {
  std::vector<Placed> placed;
  placed.reserve(nodes.size());
  for (size_t slot = 0; slot < nodes.size(); ++slot) {
    if (nodes[slot] == kFree) continue;
    placed.push_back({nodes[slot], static_cast<uint32_t>(slot)});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.node < b.node; });
  return placed;
}

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

uint64_t RowSlots::ArrangingBytes(int64_t num_slots) {
  return static_cast<uint64_t>(num_slots) *
         (sizeof(uint32_t) + 2 * sizeof(Placed) + 1);
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
absl::Status RowSlots::Arrange(absl::Span<const uint32_t> wanted, Load load) {
  if (std::equal(wanted.begin(), wanted.end(), nodes_.begin(), nodes_.end())) {
    return absl::OkStatus();
  }
  // The slot from which each slot takes its row; itself if it has it, kFree if
  // the row is to be loaded, or none is wanted.
  std::vector<uint32_t> source(nodes_.size(), kFree);
  std::vector<bool> is_wanted(nodes_.size(), false);
  std::vector<Placed> missing = ByNode(wanted);
  {
    const std::vector<Placed> held = ByNode(nodes_);
    auto from = held.begin();
    std::erase_if(missing, [&](const Placed& place) {
      while (from != held.end() && from->node < place.node) ++from;
      if (from == held.end() || from->node != place.node) return false;
      source[place.slot] = from->slot;
      is_wanted[from->slot] = true;
      return true;
    });
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
  HEARTH_RETURN_IF_ERROR(load(missing));
  for (const Placed& placed : missing) nodes_[placed.slot] = placed.node;
  return absl::OkStatus();
}

}  // namespace hearth::strategy
