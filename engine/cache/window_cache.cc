#include "engine/cache/window_cache.h"

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

WindowCache::WindowCache(int64_t num_lines)
    : num_lines_(num_lines), index_(num_lines) {
  assert(0 <= num_lines && num_lines <= INT32_MAX);
}

void WindowCache::Enter(absl::Span<const store::NodeId> nodes,
                        std::vector<Entry>& entries) {
  constexpr size_t kAhead = 16;
  entries.clear();
  entries.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) index_.Prefetch(nodes[i + kAhead]);
    const Entry entry = FindOrAdd(nodes[i]);
    Record& record = records_[static_cast<size_t>(entry)];
    if (record.uses++ == 0 && record.line != kNoLine) RemoveSafe(entry);
    entries.push_back(entry);
  }
}

WindowCache::Place WindowCache::Locate(Entry entry, RandomStream& random) {
  Record& record = records_[static_cast<size_t>(entry)];
  assert(record.uses > 0);
  if (record.line != kNoLine) return {.line = record.line, .is_hit = true};
  if (num_used_ < num_lines_) {
    record.line = static_cast<int32_t>(num_used_++);
  } else if (!safe_.empty()) {
    const Entry evicted = safe_[random.Below(safe_.size())];
    record.line = records_[static_cast<size_t>(evicted)].line;
    RemoveSafe(evicted);
    Remove(evicted);
  }
  return {.line = record.line, .is_hit = false};
}

void WindowCache::Leave(absl::Span<const Entry> entries) {
  for (const Entry entry : entries) {
    Record& record = records_[static_cast<size_t>(entry)];
    assert(record.uses > 0);
    if (--record.uses > 0) continue;
    if (record.line != kNoLine) {
      AddSafe(entry);
    } else {
      Remove(entry);
    }
  }
}

void WindowCache::Clear() {
  num_used_ = 0;
  records_.clear();
  free_.clear();
  safe_.clear();
  index_.Clear();
}

uint64_t WindowCache::MemoryBytes(int64_t num_lines, int64_t window_nodes) {
  const int64_t entries = num_lines + window_nodes;
  // Vectors grow to twice their size, and while they grow the old one exists,
  // too.
  return static_cast<uint64_t>(entries) *
             (3 * (sizeof(Record) + sizeof(Entry))) +
         static_cast<uint64_t>(num_lines) * 3 * sizeof(Entry) +
         NodeIndex::MemoryBytes(2 * entries);
}

WindowCache::Entry WindowCache::FindOrAdd(store::NodeId node) {
  const Entry found = index_.Find(node, NodeOf());
  if (found != NodeIndex::kAbsent) return found;
  Entry entry;
  if (free_.empty()) {
    entry = static_cast<Entry>(records_.size());
    if (entry == index_.capacity())
      index_.Grow(2 * int64_t{entry}, entry, NodeOf());
    records_.emplace_back();
  } else {
    entry = free_.back();
    free_.pop_back();
  }
  records_[static_cast<size_t>(entry)] = {.node = node};
  index_.Add(node, entry, NodeOf());
  return entry;
}

void WindowCache::Remove(Entry entry) {
  index_.Remove(records_[static_cast<size_t>(entry)].node, NodeOf());
  free_.push_back(entry);
}

void WindowCache::AddSafe(Entry entry) {
  records_[static_cast<size_t>(entry)].safe_index =
      static_cast<int32_t>(safe_.size());
  safe_.push_back(entry);
}

// The last safe entry takes the place of the removed one.
void WindowCache::RemoveSafe(Entry entry) {
  const int32_t index = records_[static_cast<size_t>(entry)].safe_index;
  safe_[static_cast<size_t>(index)] = safe_.back();
  records_[static_cast<size_t>(safe_.back())].safe_index = index;
  safe_.pop_back();
}

}  // namespace hearth::cache
