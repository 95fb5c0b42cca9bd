#include "engine/plan/access_trace.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::plan {

namespace {

using store::NodeId;

// Prefetch distance: counts are far larger than the processor's caches.
constexpr size_t kAhead = 16;

}  // namespace

absl::Status CheckNodes(absl::Span<const NodeId> nodes, int64_t num_nodes) {
  for (const NodeId node : nodes) {
    if (node < 0 || node >= num_nodes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "node ", node, " of an access trace is not one of ", num_nodes));
    }
  }
  return absl::OkStatus();
}

AccessCounts::AccessCounts(io::AlignedMemory memory, int64_t num_nodes)
    : memory_(std::move(memory)),
      counts_(reinterpret_cast<uint32_t*>(memory_.bytes().data()),
              static_cast<size_t>(num_nodes)) {}

absl::StatusOr<AccessCounts> AccessCounts::Count(AccessTrace& trace,
                                                 int64_t num_nodes,
                                                 const std::stop_token& stop) {
  if (num_nodes < 0 || trace.num_batches() > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "accesses of ", trace.num_batches(), " batches to ", num_nodes,
        " nodes cannot be counted: the limit is ", INT32_MAX, " batches"));
  }
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(static_cast<uint64_t>(num_nodes) *
                                  sizeof(uint32_t)));
  AccessCounts counts(std::move(memory), num_nodes);
  for (int64_t batch = 0; batch < trace.num_batches(); ++batch) {
    if (stop.stop_requested()) {
      return absl::CancelledError("counting accesses: stopped on request");
    }
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                            trace.Load(batch));
    HEARTH_RETURN_IF_ERROR(CheckNodes(nodes, num_nodes));
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i + kAhead < nodes.size()) {
        __builtin_prefetch(&counts.counts_[nodes[i + kAhead]], /*rw=*/1);
      }
      ++counts.counts_[nodes[i]];
    }
    counts.num_accesses_ += static_cast<int64_t>(nodes.size());
  }
  return counts;
}

std::vector<NodeId> AccessCounts::MostAccessed(int64_t limit) const {
  uint32_t largest = 0;
  for (const uint32_t count : counts_) largest = std::max(largest, count);
  // Index in the order where the nodes of each count begin; then, where the
  // next node of that count goes.
  std::vector<int64_t> next(size_t{largest} + 1, 0);
  for (const uint32_t count : counts_) ++next[count];
  int64_t accessed = 0;
  for (size_t count = largest; count > 0; --count) {
    accessed += std::exchange(next[count], accessed);
  }
  const int64_t size = std::clamp<int64_t>(limit, 0, accessed);
  std::vector<NodeId> order(static_cast<size_t>(size));
  for (NodeId node = 0; node < num_nodes(); ++node) {
    const uint32_t count = counts_[node];
    if (count > 0 && next[count] < size) order[next[count]++] = node;
  }
  return order;
}

}  // namespace hearth::plan
