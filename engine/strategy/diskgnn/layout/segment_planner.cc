#include "engine/strategy/diskgnn/layout/segment_planner.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/base/status.h"

namespace hearth::strategy {

absl::Status MemoryLevels::Allocate(int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      memory_, io::AlignedMemory::Allocate(static_cast<uint64_t>(num_nodes) *
                                           sizeof(uint32_t)));
  codes_ = {reinterpret_cast<uint32_t*>(memory_.bytes().data()),
            static_cast<size_t>(num_nodes)};
  return absl::OkStatus();
}

absl::StatusOr<MemoryLevels> MemoryLevels::Of(
    int64_t num_nodes, absl::Span<const store::NodeId> gpu_nodes,
    absl::Span<const store::NodeId> cpu_nodes) {
  MemoryLevels levels;
  HEARTH_RETURN_IF_ERROR(levels.Allocate(num_nodes));
  levels.gpu_nodes_.assign(gpu_nodes.begin(), gpu_nodes.end());
  levels.cpu_nodes_.assign(cpu_nodes.begin(), cpu_nodes.end());
  uint32_t code = 0;
  for (const auto* nodes : {&levels.gpu_nodes_, &levels.cpu_nodes_}) {
    if (!std::is_sorted(nodes->begin(), nodes->end())) {
      return absl::InvalidArgumentError("nodes of a level are not ascending");
    }
    for (const store::NodeId node : *nodes) {
      if (node < 0 || node >= num_nodes || levels.Holds(node)) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node, " of ", num_nodes,
                         " does not exist or is held twice"));
      }
      levels.codes_[node] = ++code;
    }
  }
  return levels;
}

absl::StatusOr<MemoryLevels> MemoryLevels::Choose(
    const plan::AccessCounts& counts, const Rows& rows) {
  const int64_t num_nodes = counts.num_nodes();
  if (rows.gpu < 0 || rows.cpu < 0) {
    return absl::InvalidArgumentError(absl::StrCat("caches of ", rows.gpu,
                                                   " rows (GPU) and ", rows.cpu,
                                                   " (CPU) cannot be filled"));
  }
  const int64_t gpu = std::min(rows.gpu, num_nodes);
  const int64_t wanted = gpu + std::min(rows.cpu, num_nodes - gpu);
  if (wanted >= UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        wanted, " rows are too many to hold: the limit is ", UINT32_MAX - 1));
  }
  MemoryLevels levels;
  HEARTH_RETURN_IF_ERROR(levels.Allocate(num_nodes));
  levels.cpu_nodes_ = counts.MostAccessed(wanted);
  const auto split = levels.cpu_nodes_.begin() +
                     std::min<ptrdiff_t>(gpu, std::ssize(levels.cpu_nodes_));
  levels.gpu_nodes_.assign(levels.cpu_nodes_.begin(), split);
  levels.cpu_nodes_.erase(levels.cpu_nodes_.begin(), split);
  uint32_t code = 0;
  for (auto* nodes : {&levels.gpu_nodes_, &levels.cpu_nodes_}) {
    std::sort(nodes->begin(), nodes->end());
    for (const store::NodeId node : *nodes) levels.codes_[node] = ++code;
  }
  return levels;
}

namespace {

// The part of the bound on rows for the first `batches`.
int64_t RowsUpTo(const Segmentation& segmentation, int64_t batches) {
  return static_cast<int64_t>(static_cast<__int128>(segmentation.max_rows) *
                              batches / segmentation.num_batches);
}

}  // namespace

Segment SegmentAt(const Segmentation& segmentation, int64_t index) {
  Segment segment;
  segment.index = index;
  segment.begin = index * segmentation.segment_size;
  segment.end =
      segment.begin + std::min(segmentation.segment_size,
                               segmentation.num_batches - segment.begin);
  if (segmentation.max_rows != Segmentation::kUnbounded) {
    segment.max_rows = RowsUpTo(segmentation, segment.end) -
                       RowsUpTo(segmentation, segment.begin);
  }
  return segment;
}

namespace {

// Ranks 0 .. count - 1 in random order (Fisher-Yates).
std::vector<uint32_t> RandomRanks(int64_t count, RandomStream random) {
  std::vector<uint32_t> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0u);
  for (size_t i = ranks.size(); i > 1; --i) {
    std::swap(ranks[i - 1], ranks[random.Below(i)]);
  }
  return ranks;
}

// Stable counting sort of `order` by the values that it refers to, which are at
// most `largest`.
void SortBy(const std::vector<uint32_t>& values, size_t largest,
            std::vector<uint32_t>& order, std::vector<uint32_t>& scratch) {
  std::vector<uint32_t> next(largest + 2, 0);
  for (const uint32_t value : values) ++next[value + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (const uint32_t row : order) scratch[next[values[row]]++] = row;
  order.swap(scratch);
}

}  // namespace

MinHashOrder::MinHashOrder(int64_t num_rows, int64_t num_batches, uint64_t seed,
                           int64_t segment) {
  for (int j = 0; j < kNumFunctions; ++j) {
    ranks_[j] =
        RandomRanks(num_batches, RandomStream(seed, RandomPurpose::kReordering,
                                              static_cast<uint64_t>(segment),
                                              static_cast<uint64_t>(j)));
    signatures_[j].assign(static_cast<size_t>(num_rows),
                          static_cast<uint32_t>(num_batches));
  }
}

std::vector<uint32_t> MinHashOrder::Places() && {
  std::vector<uint32_t> order(signatures_[0].size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<uint32_t> places(order.size());
  // The least significant function first: each sort is stable.
  for (int j = kNumFunctions; j-- > 0;) {
    SortBy(signatures_[j], ranks_[j].size(), order, places);
    std::vector<uint32_t>().swap(signatures_[j]);
  }
  for (size_t place = 0; place < order.size(); ++place) {
    places[order[place]] = static_cast<uint32_t>(place);
  }
  return places;
}

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
  // A local, so that Order, which takes as much memory, does not add to it.
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
  int64_t free_rows = segment_.max_rows;
  for (size_t count = num_with.size(); count-- > 2;) {
    if (num_with[count] > free_rows) {
      return {.count = static_cast<uint32_t>(count), .num_at_count = free_rows};
    }
    free_rows -= num_with[count];
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
      // Nodes that the memory levels hold have the code 0.
      const uint32_t code = codes_[nodes[i]];
      if (code == 0 || code == kPacked) continue;
      order.Add(batch - segment_.begin, code - 1);
    }
  }
  places_ = std::move(order).Places();
  return absl::OkStatus();
}

}  // namespace hearth::strategy
