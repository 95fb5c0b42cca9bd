#include "engine/strategy/diskgnn/layout/layout_search.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/packing/file_range.h"

namespace hearth::strategy {

using store::NodeId;

absl::Status CheckLayoutInput(const LayoutInput& input,
                              const Segmentation& segmentation) {
  const int64_t num_batches = input.trace->num_batches();
  if (num_batches > INT32_MAX || segmentation.num_batches != num_batches ||
      std::ssize(input.sample_bytes) != num_batches) {
    return absl::InvalidArgumentError(
        absl::StrCat("a layout of ", segmentation.num_batches, " batches with ",
                     input.sample_bytes.size(), " samples is no layout for ",
                     num_batches, " batches (the limit is ", INT32_MAX, ")"));
  }
  if (input.row_bytes <= 0 || segmentation.segment_size <= 0 ||
      segmentation.max_rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a layout of rows of ", input.row_bytes, " bytes in segments of ",
        segmentation.segment_size, " batches with ", segmentation.max_rows,
        " rows in the disk cache cannot be made"));
  }
  return absl::OkStatus();
}

LevelCounts CountLevels(const SegmentPlanner& planner,
                        absl::Span<const NodeId> nodes) {
  LevelCounts counts;
  for (const NodeId node : nodes) {
    switch (planner.LevelOf(node)) {
      case Level::kGpu:
        ++counts.gpu;
        break;
      case Level::kCpu:
        ++counts.cpu;
        break;
      case Level::kDisk:
        ++counts.disk;
        break;
      case Level::kPack:
        ++counts.packed;
        break;
    }
  }
  return counts;
}

absl::StatusOr<PackedLayout> MeasureLayout(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           const std::stop_token& stop) {
  HEARTH_RETURN_IF_ERROR(CheckLayoutInput(input, segmentation));
  PackedLayout layout;
  layout.row_bytes = input.row_bytes;
  layout.segment_size = segmentation.segment_size;
  layout.rows.gpu = std::ssize(input.levels->gpu_nodes());
  layout.rows.cpu = std::ssize(input.levels->cpu_nodes());
  layout.chunks.reserve(static_cast<size_t>(segmentation.num_batches));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SegmentPlanner> planner,
                          SegmentPlanner::Make(*input.trace, *input.levels));
  for (int64_t i = 0; i < segmentation.num_segments(); ++i) {
    const Segment segment = SegmentAt(segmentation, i);
    HEARTH_RETURN_IF_ERROR(planner->Choose(segment, stop));
    for (int64_t batch = segment.begin; batch < segment.end; ++batch) {
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                              input.trace->Load(batch));
      layout.AddChunk(input.sample_bytes[batch], CountLevels(*planner, nodes));
    }
    layout.segment_rows.push_back(std::ssize(planner->cached_nodes()));
    layout.rows.disk += layout.segment_rows.back();
  }
  layout.PlaceChunks();
  return layout;
}

namespace {

// Element `index` of `count` numbers spread evenly over 0 .. total - 1.
int64_t Spread(int64_t index, int64_t count, int64_t total) {
  return static_cast<int64_t>(static_cast<__int128>(index) * total / count);
}

uint64_t BatchReadBytes(const SegmentPlanner& planner,
                        absl::Span<const NodeId> nodes, int64_t row_bytes,
                        std::vector<int64_t>& rows) {
  rows.clear();
  uint64_t packed = 0;
  for (const NodeId node : nodes) {
    const Level level = planner.LevelOf(node);
    if (level == Level::kPack) packed += static_cast<uint64_t>(row_bytes);
    if (level == Level::kDisk) rows.push_back(planner.PlaceOf(node));
  }
  std::sort(rows.begin(), rows.end());
  return RoundUpToPage(packed) +
         static_cast<uint64_t>(CountPages(rows, row_bytes)) * kPageBytes;
}

}  // namespace

int64_t CountPages(absl::Span<const int64_t> rows, int64_t row_bytes) {
  constexpr auto kPage = static_cast<int64_t>(kPageBytes);
  int64_t pages = 0;
  // Pages before this one are counted.
  int64_t next = 0;
  for (const int64_t row : rows) {
    const int64_t first = std::max(next, row * row_bytes / kPage);
    const int64_t end = ((row + 1) * row_bytes + kPage - 1) / kPage;
    pages += std::max<int64_t>(0, end - first);
    next = std::max(next, end);
  }
  return pages;
}

absl::StatusOr<uint64_t> EstimateReadBytes(const LayoutInput& input,
                                           const Segmentation& segmentation,
                                           int64_t max_batches,
                                           SegmentPlanner& planner,
                                           const std::stop_token& stop) {
  const int64_t size = segmentation.segment_size;
  const int64_t num_segments = std::min(
      segmentation.num_segments(),
      std::max<int64_t>(1, max_batches / size + (max_batches % size != 0)));
  uint64_t bytes = 0;
  int64_t counted = 0;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < num_segments; ++i) {
    const Segment segment = SegmentAt(
        segmentation, Spread(i, num_segments, segmentation.num_segments()));
    HEARTH_RETURN_IF_ERROR(planner.Choose(segment, stop));
    HEARTH_RETURN_IF_ERROR(planner.Order(segmentation.seed, stop));
    const int64_t in_segment = std::min(segment.size(), max_batches);
    for (int64_t j = 0; j < in_segment; ++j) {
      HEARTH_ASSIGN_OR_RETURN(
          const absl::Span<const NodeId> nodes,
          input.trace->Load(segment.begin +
                            Spread(j, in_segment, segment.size())));
      bytes += BatchReadBytes(planner, nodes, input.row_bytes, rows);
    }
    counted += in_segment;
  }
  if (counted == segmentation.num_batches || counted == 0) return bytes;
  return static_cast<uint64_t>(static_cast<double>(bytes) *
                               static_cast<double>(segmentation.num_batches) /
                               static_cast<double>(counted));
}

namespace {

/// Counts accesses of the batches so far to rows below the memory levels.
class GrowingSegment {
 public:
  static absl::StatusOr<GrowingSegment> Make(const LayoutInput& input,
                                             int64_t max_cache_rows) {
    const auto num_nodes = static_cast<uint64_t>(input.levels->num_nodes());
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory memory,
        io::AlignedMemory::Allocate(num_nodes * sizeof(uint32_t)));
    return GrowingSegment(input, max_cache_rows, std::move(memory));
  }

  absl::Status Add(absl::Span<const NodeId> nodes) {
    ++num_batches_;
    LevelCounts levels;
    for (const NodeId node : nodes) {
      if (node < 0 || node >= levels_->num_nodes()) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node, " of an access trace is not one of ",
                         levels_->num_nodes()));
      }
      if (levels_->Holds(node)) {
        ++(levels_->LevelOf(node) == Level::kGpu ? levels.gpu : levels.cpu);
        continue;
      }
      ++levels.disk;
      const uint32_t count = ++counts()[node];
      if (num_with_.size() <= count) num_with_.resize(count + 1, 0);
      if (count > 1) --num_with_[count - 1];
      ++num_with_[count];
    }
    // Assumes a disk cache of as many rows as the graph has nodes, for the
    // width of its addresses.
    const uint64_t table =
        EncodedTableBytes(levels, {.gpu = std::ssize(levels_->gpu_nodes()),
                                   .cpu = std::ssize(levels_->cpu_nodes()),
                                   .disk = levels_->num_nodes()});
    fixed_bytes_ += RoundUpToPage(table);
    return absl::OkStatus();
  }

  /// Bytes of address tables so far.
  uint64_t fixed_bytes() const { return fixed_bytes_; }

  /// Rows on disk of all `total` batches, if all segments are like the batches
  /// so far.
  double RowsOf(int64_t total) const {
    const double segments =
        static_cast<double>(total) / static_cast<double>(num_batches_);
    double free_rows = max_cache_rows_ == Segmentation::kUnbounded
                           ? static_cast<double>(max_cache_rows_)
                           : static_cast<double>(max_cache_rows_) / segments;
    double rows = num_with_.size() > 1 ? static_cast<double>(num_with_[1]) : 0;
    for (size_t count = num_with_.size(); count-- > 2;) {
      const auto nodes = static_cast<double>(num_with_[count]);
      const double cached = std::min(nodes, free_rows);
      free_rows -= cached;
      rows += cached + (nodes - cached) * static_cast<double>(count);
    }
    return rows * segments;
  }

 private:
  GrowingSegment(const LayoutInput& input, int64_t max_cache_rows,
                 io::AlignedMemory memory)
      : levels_(input.levels),
        max_cache_rows_(max_cache_rows),
        memory_(std::move(memory)) {}

  uint32_t* counts() {
    return reinterpret_cast<uint32_t*>(memory_.bytes().data());
  }

  const MemoryLevels* levels_;
  int64_t max_cache_rows_;
  io::AlignedMemory memory_;
  // Number of nodes by how often they are needed.
  std::vector<int64_t> num_with_;
  int64_t num_batches_ = 0;
  uint64_t fixed_bytes_ = 0;
};

// Bytes that do not depend on the segments, without tables.
uint64_t FixedBytes(const LayoutInput& input) {
  PackedLayout layout;
  layout.row_bytes = input.row_bytes;
  layout.rows.gpu = std::ssize(input.levels->gpu_nodes());
  layout.rows.cpu = std::ssize(input.levels->cpu_nodes());
  uint64_t bytes = layout.gpu_cache_bytes() + layout.cpu_cache_bytes() +
                   kIndexHeaderBytes +
                   input.sample_bytes.size() * sizeof(Chunk);
  for (const uint64_t sample : input.sample_bytes) {
    // Rounding up packed rows to pages adds half a page on average.
    bytes += RoundUpToPage(kChunkHeaderBytes + sample) + kPageBytes / 2;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> EstimateSpace(
    const LayoutInput& input, int64_t max_cache_rows,
    const std::stop_token& stop) {
  const int64_t num_batches = input.trace->num_batches();
  HEARTH_ASSIGN_OR_RETURN(GrowingSegment segment,
                          GrowingSegment::Make(input, max_cache_rows));
  std::vector<double> rows;
  for (int64_t batch = 0; batch < num_batches; ++batch) {
    if (stop.stop_requested()) {
      return absl::CancelledError("searching a layout: stopped on request");
    }
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                            input.trace->Load(batch));
    HEARTH_RETURN_IF_ERROR(segment.Add(nodes));
    rows.push_back(segment.RowsOf(num_batches));
  }
  const uint64_t fixed = FixedBytes(input) + segment.fixed_bytes();
  std::vector<uint64_t> estimates;
  for (const double count : rows) {
    estimates.push_back(
        fixed +
        static_cast<uint64_t>(count * static_cast<double>(input.row_bytes)));
  }
  return estimates;
}

// 1. If the layout with all rows packed fits, take it: no layout reads fewer
//    bytes.
// 2. Estimate the space of every segment size. As a rule larger segments take
//    less space: find the smallest size that fits by halving, guided by the
//    estimates, corrected by exact measurements. The last size, a single
//    segment, stores every row once: no layout is smaller, except for rounding
//    to pages.
// 3. As a rule larger segments read more, so that this size is mostly the best;
//    rounding to pages makes exceptions, so that some larger sizes are tried,
//    too: reorder a sample of segments and count the bytes that they read.

namespace {

// Tolerances are 1 in so many: a size so little above the smallest is as good,
// and a layout so little below the limit uses all of it.
constexpr int64_t kFine = 32;

class Search {
 public:
  Search(const LayoutInput& input, const LayoutLimits& limits,
         const LayoutSearchOptions& options, const std::stop_token& stop)
      : input_(input), limits_(limits), options_(options), stop_(stop) {}

  absl::StatusOr<LayoutChoice> Run() {
    HEARTH_RETURN_IF_ERROR(CheckLayoutInput(input_, SegmentsOf(1)));
    LayoutCandidate all_packed = {.segment_size = 1};
    HEARTH_ASSIGN_OR_RETURN(const bool packed_fits, Measure(all_packed));
    all_packed.estimated_bytes = *all_packed.exact_bytes;
    choice_.candidates = {all_packed};
    if (packed_fits) return Chosen(all_packed, "everything packed fits");
    if (limits_.max_cache_rows == 0) return Refused();
    HEARTH_ASSIGN_OR_RETURN(
        estimates_, EstimateSpace(input_, limits_.max_cache_rows, stop_));
    HEARTH_ASSIGN_OR_RETURN(const int64_t smallest, SmallestThatFits());
    if (smallest > input_.trace->num_batches()) return Refused();
    HEARTH_RETURN_IF_ERROR(TryFrom(smallest));
    HEARTH_ASSIGN_OR_RETURN(LayoutCandidate* const chosen, Cheapest());
    if (measured_size_ != chosen->segment_size) {
      HEARTH_RETURN_IF_ERROR(Measure(*chosen).status());
    }
    return Chosen(*chosen, "it reads the least among the layouts that fit");
  }

 private:
  Segmentation SegmentsOf(int64_t size) const {
    return {.num_batches = input_.trace->num_batches(),
            .segment_size = size,
            .max_rows = limits_.max_cache_rows,
            .seed = options_.seed};
  }

  /// The candidate of a size, new or known.
  LayoutCandidate& Candidate(int64_t size) {
    const auto at = std::lower_bound(
        choice_.candidates.begin(), choice_.candidates.end(), size,
        [](const LayoutCandidate& candidate, int64_t other) {
          return candidate.segment_size < other;
        });
    if (at != choice_.candidates.end() && at->segment_size == size) return *at;
    return *choice_.candidates.insert(
        at, {.segment_size = size, .estimated_bytes = estimates_[size - 1]});
  }

  /// Measures the exact layout of a candidate. Returns whether it is within the
  /// limit.
  absl::StatusOr<bool> Measure(LayoutCandidate& candidate) {
    HEARTH_ASSIGN_OR_RETURN(
        choice_.layout,
        MeasureLayout(input_, SegmentsOf(candidate.segment_size), stop_));
    measured_size_ = candidate.segment_size;
    candidate.exact_bytes = choice_.layout.total_bytes() + limits_.other_bytes;
    smallest_ = std::min(smallest_, *candidate.exact_bytes);
    return *candidate.exact_bytes <= limits_.disk_bytes;
  }

  /// The smallest size that fits, or a hardly larger one; above the number of
  /// batches if none fits.
  absl::StatusOr<int64_t> SmallestThatFits() {
    // Sizes up to the first do not fit; the second one fits.
    int64_t below = 1;
    int64_t above = input_.trace->num_batches() + 1;
    // Factor from estimates to exact sizes.
    double ratio = RatioOf(choice_.candidates.front());
    for (bool halve = false; above - below > 1 + above / kFine;
         halve = !halve) {
      const int64_t size = halve ? below + (above - below) / 2
                                 : FirstWithin(below, above, ratio);
      LayoutCandidate& candidate = Candidate(size);
      HEARTH_ASSIGN_OR_RETURN(const bool fits, Measure(candidate));
      (fits ? above : below) = size;
      // Smaller segments have nothing to gain from unused space.
      if (fits && size > kFine && IsFull(*candidate.exact_bytes)) break;
      ratio = RatioOf(candidate);
    }
    if (above > input_.trace->num_batches()) {
      // Few sizes are left; the last one has the smallest layout.
      LayoutCandidate& last = Candidate(input_.trace->num_batches());
      HEARTH_ASSIGN_OR_RETURN(const bool fits, Measure(last));
      if (fits) above = last.segment_size;
    }
    return Evened(above);
  }

  /// The size that makes as many segments as `size` but equal ones, if it fits,
  /// too: smaller segments read less.
  absl::StatusOr<int64_t> Evened(int64_t size) {
    const int64_t batches = input_.trace->num_batches();
    if (size > batches) return size;
    const int64_t segments = (batches + size - 1) / size;
    const int64_t even = (batches + segments - 1) / segments;
    if (even == size) return size;
    LayoutCandidate& candidate = Candidate(even);
    if (!candidate.exact_bytes) {
      HEARTH_RETURN_IF_ERROR(Measure(candidate).status());
    }
    return *candidate.exact_bytes <= limits_.disk_bytes ? even : size;
  }

  /// The first size in the range whose estimate times `ratio` is within the
  /// limit; the last one if none is.
  int64_t FirstWithin(int64_t below, int64_t above, double ratio) const {
    int64_t size = below + 1;
    while (size + 1 < above &&
           ratio * static_cast<double>(estimates_[size - 1]) >
               static_cast<double>(limits_.disk_bytes)) {
      ++size;
    }
    return size;
  }

  /// Whether a layout takes nearly all of the limit.
  bool IsFull(uint64_t bytes) const {
    return bytes >= limits_.disk_bytes - limits_.disk_bytes / kFine;
  }

  static double RatioOf(const LayoutCandidate& candidate) {
    return static_cast<double>(*candidate.exact_bytes) /
           static_cast<double>(
               std::max<uint64_t>(1, candidate.estimated_bytes));
  }

  /// Tries `first` and some larger sizes.
  absl::Status TryFrom(int64_t first) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<SegmentPlanner> planner,
        SegmentPlanner::Make(*input_.trace, *input_.levels));
    // Spread evenly, the first and the last included.
    const int64_t last = input_.trace->num_batches();
    const int64_t count =
        std::min(std::max<int64_t>(1, options_.max_tried), last - first + 1);
    for (int64_t i = 0; i < count; ++i) {
      LayoutCandidate& candidate = Candidate(
          count == 1 ? first : first + i * (last - first) / (count - 1));
      HEARTH_ASSIGN_OR_RETURN(
          candidate.estimated_read_bytes,
          EstimateReadBytes(input_, SegmentsOf(candidate.segment_size),
                            std::max<int64_t>(1, options_.max_sampled_batches),
                            *planner, stop_));
      ++choice_.num_tried;
    }
    return absl::OkStatus();
  }

  /// Of the tried sizes that fit, the one that reads the least; of equal ones
  /// the smallest. REQUIRES: a tried size fits.
  absl::StatusOr<LayoutCandidate*> Cheapest() {
    std::vector<LayoutCandidate*> order;
    for (LayoutCandidate& candidate : choice_.candidates) {
      if (candidate.estimated_read_bytes) order.push_back(&candidate);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const LayoutCandidate* a, const LayoutCandidate* b) {
                       return *a->estimated_read_bytes <
                              *b->estimated_read_bytes;
                     });
    for (LayoutCandidate* candidate : order) {
      if (!candidate->exact_bytes) {
        HEARTH_RETURN_IF_ERROR(Measure(*candidate).status());
      }
      if (*candidate->exact_bytes <= limits_.disk_bytes) return candidate;
    }
    return absl::InternalError("layout search: what fitted does not fit");
  }

  LayoutChoice Chosen(const LayoutCandidate& candidate, absl::string_view why) {
    choice_.segmentation = SegmentsOf(candidate.segment_size);
    choice_.reason =
        absl::StrCat("segments of ", candidate.segment_size, " batches, ",
                     FormatByteSize(*candidate.exact_bytes), " on disk: ", why);
    return std::move(choice_);
  }

  absl::Status Refused() const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk limit of ", limits_.disk_bytes, " bytes (",
        FormatByteSize(limits_.disk_bytes),
        ") is below the smallest layout for these batches and caches: ",
        smallest_, " bytes (", FormatByteSize(smallest_), ")"));
  }

  const LayoutInput& input_;
  const LayoutLimits& limits_;
  const LayoutSearchOptions& options_;
  const std::stop_token& stop_;
  LayoutChoice choice_;
  // The segmentation of the layout in choice_.
  int64_t measured_size_ = 0;
  uint64_t smallest_ = UINT64_MAX;
  // Estimated bytes by segment size, from 1 on.
  std::vector<uint64_t> estimates_;
};

}  // namespace

absl::StatusOr<LayoutChoice> SearchLayout(const LayoutInput& input,
                                          const LayoutLimits& limits,
                                          const LayoutSearchOptions& options,
                                          const std::stop_token& stop) {
  return Search(input, limits, options, stop).Run();
}

}  // namespace hearth::strategy
