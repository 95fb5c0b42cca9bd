#include "engine/strategy/superbatch/access_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

// Every access goes to a random place in arrays that are far larger than the
// processor's caches, so each loop asks for what a later turn will touch.

namespace hearth::strategy {
namespace {

using store::NodeId;

constexpr size_t kAhead = 16;

template <typename T>
absl::Span<T> As(io::AlignedMemory& memory, size_t count) {
  return {reinterpret_cast<T*>(memory.bytes().data()), count};
}

}  // namespace

AccessTable::AccessTable(io::AlignedMemory ptr_memory, int64_t num_nodes)
    : ptr_memory_(std::move(ptr_memory)),
      ptr_(As<int64_t>(ptr_memory_, static_cast<size_t>(num_nodes))) {}

absl::StatusOr<AccessTable> AccessTable::Make(int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(static_cast<uint64_t>(num_nodes) *
                                  sizeof(int64_t)));
  return AccessTable(std::move(memory), num_nodes);
}

uint64_t AccessTable::MemoryBytes(int64_t num_nodes, int64_t num_accesses) {
  return static_cast<uint64_t>(num_nodes) * sizeof(int64_t) +
         (static_cast<uint64_t>(num_accesses) + 1) * sizeof(uint32_t);
}

absl::Status AccessTable::Count(absl::Span<const NodeId> nodes) {
  const auto num_nodes = static_cast<NodeId>(ptr_.size());
  for (const NodeId node : nodes) {
    if (node < 0 || node >= num_nodes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "node ", node, " of an access trace is not one of ", num_nodes));
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) {
      __builtin_prefetch(&ptr_[nodes[i + kAhead]], /*rw=*/1);
    }
    ++ptr_[nodes[i]];
  }
  num_accesses_ += static_cast<int64_t>(nodes.size());
  return absl::OkStatus();
}

absl::Status AccessTable::BeginPlacing() {
  const auto entries = static_cast<size_t>(num_accesses_) + 1;
  HEARTH_ASSIGN_OR_RETURN(
      iters_memory_, io::AlignedMemory::Allocate(entries * sizeof(uint32_t)));
  iters_ = As<uint32_t>(iters_memory_, entries);
  int64_t begin = 0;
  for (int64_t& entry : ptr_) begin += std::exchange(entry, begin);
  return absl::OkStatus();
}

void AccessTable::Place(uint32_t batch, absl::Span<const NodeId> nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + 2 * kAhead < nodes.size()) {
      __builtin_prefetch(&ptr_[nodes[i + 2 * kAhead]], /*rw=*/1);
    }
    if (i + kAhead < nodes.size()) {
      __builtin_prefetch(&iters_[ptr_[nodes[i + kAhead]]], /*rw=*/1);
    }
    iters_[ptr_[nodes[i]]++] = batch;
  }
}

void AccessTable::EndPlacing() {
  iters_.back() = kNever;
  // Each node's end is where the next one began: shift back.
  if (ptr_.empty()) return;
  std::copy_backward(ptr_.begin(), ptr_.end() - 1, ptr_.end());
  ptr_.front() = 0;
  // A node that is never needed points at the next one's first entry.
  for (const int64_t first : ptr_) iters_[first] |= kFirst;
}

void AccessTable::Advance(absl::Span<const NodeId> nodes,
                          absl::Span<uint32_t> next) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + 2 * kAhead < nodes.size()) {
      __builtin_prefetch(&ptr_[nodes[i + 2 * kAhead]], /*rw=*/1);
    }
    if (i + kAhead < nodes.size()) {
      __builtin_prefetch(&iters_[ptr_[nodes[i + kAhead]]]);
    }
    int64_t& at = ptr_[nodes[i]];
    ++at;
    // Behind its last entry stands the first one of another node.
    if ((iters_[at] & kFirst) != 0) {
      at = static_cast<int64_t>(iters_.size()) - 1;
    }
    next[i] = iters_[at];
  }
}

}  // namespace hearth::strategy
