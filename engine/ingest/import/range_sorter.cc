#include "engine/ingest/import/range_sorter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

// A counting sort, for ranges of any shape:
// 1. Count the edges into each node; their sums are the nodes' positions in the
//    output, and indptr.
// 2. Read the edges again: each goes to its node's next position. Only those
//    that fall into a window of the output are kept; the window is written.
// 3. If the range is larger than the window (one node may have more edges than
//    fit), move the window on and go back to 2.

namespace hearth::ingest {
namespace {

// Both ends, the raw bytes behind them, and pairs: 48 bytes an edge at most.
constexpr uint64_t kBlockBytesPerEdge = 48;
constexpr uint64_t kMaxBlockEdges = 256 << 10;
constexpr uint64_t kMinBlockEdges = 256;

absl::Status ChangedError() {
  return absl::FailedPreconditionError(
      "the edges were changed while they were read");
}

template <typename Id>
class CountingSorter final : public RangeSorter {
 public:
  CountingSorter(ImportContext& context, const SortBudget& budget,
                 CscWriter& writer)
      : context_(context), budget_(budget), writer_(writer) {}

  absl::Status Sort(EdgeSource& edges, const NodeRange& range) override {
    const int64_t window = budget_.WindowEdges(range.num_nodes);
    HEARTH_RETURN_IF_ERROR(Count(edges, range));
    HEARTH_RETURN_IF_ERROR(WriteOffsets());
    for (int64_t begin = 0; begin < range.num_edges; begin += window) {
      if (begin > 0) RewindPositions();
      window_.resize(
          static_cast<size_t>(std::min(window, range.num_edges - begin)));
      HEARTH_RETURN_IF_ERROR(FillWindow(edges, range, begin));
      HEARTH_RETURN_IF_ERROR(
          writer_.AppendNeighbors(absl::Span<const Id>(window_)));
    }
    edges_before_ += range.num_edges;
    return absl::OkStatus();
  }

 private:
  /// Makes positions_ where each node's edges begin.
  absl::Status Count(EdgeSource& edges, const NodeRange& range) {
    positions_.assign(static_cast<size_t>(range.num_nodes), 0);
    HEARTH_RETURN_IF_ERROR(
        ForEachBlock(context_, edges, [&](const EdgeBlock& block) {
          for (const int64_t node : block.destinations) {
            const auto local = static_cast<uint64_t>(node - range.first_node);
            if (local >= positions_.size()) return ChangedError();
            ++positions_[local];
          }
          return absl::OkStatus();
        }));
    int64_t sum = 0;
    for (int64_t& position : positions_) {
      const int64_t degree = position;
      position = sum;
      sum += degree;
    }
    return sum == range.num_edges ? absl::OkStatus() : ChangedError();
  }

  absl::Status WriteOffsets() {
    constexpr size_t kOffsets = 8 << 10;
    std::vector<int64_t> offsets;
    for (size_t first = 0; first < positions_.size(); first += kOffsets) {
      const size_t end = std::min(first + kOffsets, positions_.size());
      offsets.assign(positions_.begin() + static_cast<ptrdiff_t>(first),
                     positions_.begin() + static_cast<ptrdiff_t>(end));
      for (int64_t& offset : offsets) offset += edges_before_;
      HEARTH_RETURN_IF_ERROR(writer_.AppendOffsets(offsets));
    }
    return absl::OkStatus();
  }

  absl::Status FillWindow(EdgeSource& edges, const NodeRange& range,
                          int64_t begin) {
    size_t filled = 0;
    HEARTH_RETURN_IF_ERROR(
        ForEachBlock(context_, edges, [&](const EdgeBlock& block) {
          for (size_t i = 0; i < block.size(); ++i) {
            const auto local =
                static_cast<uint64_t>(block.destinations[i] - range.first_node);
            if (local >= positions_.size()) return ChangedError();
            const auto slot =
                static_cast<uint64_t>(positions_[local]++ - begin);
            if (slot >= window_.size()) continue;
            window_[slot] = static_cast<Id>(block.sources[i]);
            ++filled;
          }
          return absl::OkStatus();
        }));
    return filled == window_.size() ? absl::OkStatus() : ChangedError();
  }

  /// After a pass each node's position is where the next node's edges begin.
  void RewindPositions() {
    std::copy_backward(positions_.begin(), positions_.end() - 1,
                       positions_.end());
    positions_[0] = 0;
  }

  ImportContext& context_;
  const SortBudget budget_;
  CscWriter& writer_;
  int64_t edges_before_ = 0;
  std::vector<int64_t> positions_;
  std::vector<Id> window_;
};

}  // namespace

int64_t SortBudget::PositionBytes(int64_t num_nodes) {
  return num_nodes * static_cast<int64_t>(sizeof(int64_t));
}

int64_t SortBudget::WindowEdges(int64_t num_nodes) const {
  return std::max<int64_t>(0, bytes - PositionBytes(num_nodes)) / index_bytes;
}

bool SortBudget::Fits(const NodeRange& range) const {
  return PositionBytes(range.num_nodes) <= bytes &&
         range.num_edges <= WindowEdges(range.num_nodes);
}

absl::Status SortBudget::Check(const NodeRange& range) const {
  const int64_t window = std::min<int64_t>(range.num_edges, 1);
  const int64_t needed = PositionBytes(range.num_nodes) + window * index_bytes;
  if (needed <= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("sorting the edges of ", range.num_nodes, " nodes needs ",
                   FormatByteSize(static_cast<uint64_t>(needed)),
                   ", the import's memory limit leaves ",
                   FormatByteSize(static_cast<uint64_t>(bytes))));
}

int64_t SortBudget::Passes(const NodeRange& range) const {
  const int64_t window = std::max<int64_t>(1, WindowEdges(range.num_nodes));
  return 1 + (range.num_edges + window - 1) / window;
}

std::vector<NodeRange> JoinRanges(absl::Span<const NodeRange> ranges,
                                  const SortBudget& budget) {
  std::vector<NodeRange> joined;
  for (const NodeRange& range : ranges) {
    if (!joined.empty()) {
      NodeRange both = joined.back();
      both.num_nodes += range.num_nodes;
      both.num_edges += range.num_edges;
      if (budget.Fits(both)) {
        joined.back() = both;
        continue;
      }
    }
    joined.push_back(range);
  }
  return joined;
}

absl::Status ForEachBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit) {
  const auto block_edges = static_cast<int64_t>(
      std::clamp(context.memory_limit_bytes() / 8 / kBlockBytesPerEdge,
                 kMinBlockEdges, kMaxBlockEdges));
  EdgeBlock block;
  for (int64_t first = 0; first < edges.num_edges(); first += block_edges) {
    const int64_t count = std::min(block_edges, edges.num_edges() - first);
    HEARTH_RETURN_IF_ERROR(edges.Read(first, count, block));
    HEARTH_RETURN_IF_ERROR(visit(block));
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(count) * 2 * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

std::unique_ptr<RangeSorter> NewRangeSorter(ImportContext& context,
                                            const SortBudget& budget,
                                            CscWriter& writer) {
  if (budget.index_bytes == sizeof(int32_t)) {
    return std::make_unique<CountingSorter<int32_t>>(context, budget, writer);
  }
  return std::make_unique<CountingSorter<int64_t>>(context, budget, writer);
}

}  // namespace hearth::ingest
