#include "engine/sample/node_table.h"

#include <utility>

namespace hearth::sample {
namespace {

constexpr int kInitialBits = 10;

}  // namespace

NodeTable::NodeTable()
    : slots_(size_t{1} << kInitialBits), shift_(64 - kInitialBits) {}

uint64_t NodeTable::MemoryBytes(int64_t num_nodes) {
  uint64_t slots = uint64_t{1} << kInitialBits;
  while (slots < 2 * static_cast<uint64_t>(num_nodes)) slots *= 2;
  // Half as large a table stands beside it while it grows.
  return (slots + slots / 2) * sizeof(Slot);
}

void NodeTable::Clear() {
  size_ = 0;
  if (++generation_ == 0) {
    // Wrapped around: stamps of long ago would be taken for ours.
    slots_.assign(slots_.size(), {});
    generation_ = 1;
  }
}

void NodeTable::Grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  --shift_;
  size_ = 0;
  for (const Slot& slot : old) {
    if (slot.generation == generation_) FindOrAdd(slot.node, slot.position);
  }
}

}  // namespace hearth::sample
