#include "engine/strategy/diskgnn/layout/segment_planner.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/diskgnn/layout/minhash_order.h"
#include "engine/strategy/diskgnn/layout/radix_sort.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

constexpr size_t kAhead = 16;

absl::Status CheckStop(const std::stop_token& stop) {
  if (!stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError("planning a segment: stopped on request");
}

}  // namespace

SegmentPlanner::SegmentPlanner(plan::AccessTrace& trace,
                               const MemoryLevels& levels,
                               io::AlignedMemory memory)
    : trace_(trace),
      levels_(levels),
      memory_(std::move(memory)),
      codes_(reinterpret_cast<uint32_t*>(memory_.bytes().data()),
             static_cast<size_t>(levels.num_nodes())) {}

absl::StatusOr<std::unique_ptr<SegmentPlanner>> SegmentPlanner::Make(
    plan::AccessTrace& trace, const MemoryLevels& levels) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(static_cast<uint64_t>(levels.num_nodes()) *
                                  sizeof(uint32_t)));
  return std::unique_ptr<SegmentPlanner>(
      new SegmentPlanner(trace, levels, std::move(memory)));
}

absl::Status SegmentPlanner::Choose(const Segment& segment,
                                    const std::stop_token& stop) {
  Forget();
  segment_ = segment;
  HEARTH_RETURN_IF_ERROR(Count(stop));
  // Not kept: ordering takes as much.
  std::vector<NodeId> scratch;
  RadixSort(nodes_, scratch, [](NodeId node) { return node; });
  Separate(FindThreshold());
  return absl::OkStatus();
}

void SegmentPlanner::Forget() {
  for (const NodeId node : nodes_) codes_[node] = 0;
  nodes_.clear();
  cached_.clear();
  places_.clear();
  num_packed_rows_ = 0;
}

absl::Status SegmentPlanner::Count(const std::stop_token& stop) {
  for (int64_t batch = segment_.begin; batch < segment_.end; ++batch) {
    HEARTH_RETURN_IF_ERROR(CheckStop(stop));
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                            trace_.Load(batch));
    for (const NodeId node : nodes) {
      if (node < 0 || node >= levels_.num_nodes()) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node, " of an access trace is not one of ",
                         levels_.num_nodes()));
      }
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i + kAhead < nodes.size()) {
        levels_.Prefetch(nodes[i + kAhead]);
        __builtin_prefetch(&codes_[nodes[i + kAhead]], /*rw=*/1);
      }
      if (levels_.Holds(nodes[i])) continue;
      if (codes_[nodes[i]]++ == 0) nodes_.push_back(nodes[i]);
    }
  }
  return absl::OkStatus();
}

SegmentPlanner::Threshold SegmentPlanner::FindThreshold() const {
  std::vector<int64_t> num_with(static_cast<size_t>(segment_.size()) + 1, 0);
  for (const NodeId node : nodes_) ++num_with[codes_[node]];
  int64_t room = segment_.max_rows;
  for (size_t count = num_with.size(); count-- > 2;) {
    if (num_with[count] > room) {
      return {.count = static_cast<uint32_t>(count), .num_at_count = room};
    }
    room -= num_with[count];
  }
  return {};
}

void SegmentPlanner::Separate(Threshold threshold) {
  for (const NodeId node : nodes_) {
    const uint32_t count = codes_[node];
    if (count > threshold.count ||
        (count == threshold.count && threshold.num_at_count-- > 0)) {
      cached_.push_back(node);
      codes_[node] = static_cast<uint32_t>(cached_.size());
    } else {
      num_packed_rows_ += count;
      codes_[node] = kPacked;
    }
  }
}

absl::Status SegmentPlanner::Order(uint64_t seed, const std::stop_token& stop) {
  MinHashOrder order(std::ssize(cached_), segment_.size(), seed,
                     segment_.index);
  for (int64_t batch = segment_.begin; batch < segment_.end; ++batch) {
    HEARTH_RETURN_IF_ERROR(CheckStop(stop));
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                            trace_.Load(batch));
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i + kAhead < nodes.size()) {
        __builtin_prefetch(&codes_[nodes[i + kAhead]]);
      }
      // Those that the memory levels hold have the code 0.
      const uint32_t code = codes_[nodes[i]];
      if (code == 0 || code == kPacked) continue;
      order.Add(batch - segment_.begin, code - 1);
    }
  }
  places_ = std::move(order).Places();
  return absl::OkStatus();
}

}  // namespace hearth::strategy
