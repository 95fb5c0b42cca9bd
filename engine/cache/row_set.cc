#include "engine/cache/row_set.h"

#include <cassert>

namespace hearth::cache {

RowSet::RowSet(int64_t num_nodes, absl::Span<const store::NodeId> members)
    : size_(static_cast<int64_t>(members.size())) {
  if (members.empty()) return;
  blocks_.resize(
      static_cast<size_t>((num_nodes + kNodesPerBlock - 1) / kNodesPerBlock));
  for (const store::NodeId node : members) {
    assert(0 <= node && node < num_nodes);
    const auto bit = static_cast<size_t>(node % kNodesPerBlock);
    blocks_[node / kNodesPerBlock].bits[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  int64_t before = 0;
  for (Block& block : blocks_) {
    block.before = before;
    for (const uint64_t word : block.bits) before += std::popcount(word);
  }
  assert(before == size_);
}

uint64_t RowSet::MemoryBytes(int64_t num_nodes) {
  return static_cast<uint64_t>(num_nodes / kNodesPerBlock + 1) * sizeof(Block);
}

}  // namespace hearth::cache
