#include "engine/strategy/diskgnn/layout/layout_search.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/diskgnn/layout/read_estimate.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/layout/space_estimate.h"

// 1. If everything packed fits, that is it: no layout reads fewer bytes.
// 2. Estimate the space of every segment size. The larger the segments, the
// less
//    space they take, as a rule: the smallest size that fits is found by
//    halving, where the estimates, corrected by what was measured exactly, say
//    where to look. The last one, a single segment, stores every row once: no
//    layout is smaller, but for the rounding to pages.
// 3. The larger the segments, the more they read, as a rule, so that this size
//    is mostly the one; but pages have their own mind, so that some larger ones
//    are tried, too. Trying is reordering a sample of segments and counting
//    what they read.

namespace hearth::strategy {
namespace {

// A size that is larger by this part of it is as good, and a limit that is used
// but for this part.
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

  /// The figures of a size.
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

  /// The exact layout of a candidate; whether it is within the limit.
  absl::StatusOr<bool> Measure(LayoutCandidate& candidate) {
    HEARTH_ASSIGN_OR_RETURN(
        choice_.layout,
        MeasureLayout(input_, SegmentsOf(candidate.segment_size), stop_));
    measured_size_ = candidate.segment_size;
    candidate.exact_bytes = choice_.layout.total_bytes() + limits_.other_bytes;
    smallest_ = std::min(smallest_, *candidate.exact_bytes);
    return *candidate.exact_bytes <= limits_.disk_bytes;
  }

  /// The smallest size that fits, or one that is hardly larger; above the
  /// number of batches if none does.
  absl::StatusOr<int64_t> SmallestThatFits() {
    // Sizes up to the first do not fit; the second one does.
    int64_t below = 1;
    int64_t above = input_.trace->num_batches() + 1;
    // How much larger layouts are than their estimates.
    double ratio = RatioOf(choice_.candidates.front());
    for (bool halve = false; above - below > 1 + above / kFine;
         halve = !halve) {
      const int64_t size = halve ? below + (above - below) / 2
                                 : FirstWithin(below, above, ratio);
      LayoutCandidate& candidate = Candidate(size);
      HEARTH_ASSIGN_OR_RETURN(const bool fits, Measure(candidate));
      (fits ? above : below) = size;
      // Smaller segments would have no more room to gain from.
      if (fits && size > kFine && IsFull(*candidate.exact_bytes)) break;
      ratio = RatioOf(candidate);
    }
    if (above > input_.trace->num_batches()) {
      // A few sizes are left, of which the last one is the smallest layout.
      LayoutCandidate& last = Candidate(input_.trace->num_batches());
      HEARTH_ASSIGN_OR_RETURN(const bool fits, Measure(last));
      if (fits) above = last.segment_size;
    }
    return Evened(above);
  }

  /// The size that makes as many segments as `size`, but equal ones, if that
  /// fits as well, which is against the rule: smaller segments read less.
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

  /// The first size between two whose estimate, times `ratio`, is within the
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

  /// Whether a layout takes nearly all that it may.
  bool IsFull(uint64_t bytes) const {
    return bytes >= limits_.disk_bytes - limits_.disk_bytes / kFine;
  }

  static double RatioOf(const LayoutCandidate& candidate) {
    return static_cast<double>(*candidate.exact_bytes) /
           static_cast<double>(
               std::max<uint64_t>(1, candidate.estimated_bytes));
  }

  /// Tries `first`, and some larger sizes.
  absl::Status TryFrom(int64_t first) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<SegmentPlanner> planner,
        SegmentPlanner::Make(*input_.trace, *input_.levels));
    // Spread evenly, the first and the last among them.
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

  /// The size that reads the least of those tried that fit; of equal ones the
  /// smallest. REQUIRES: one of those tried fits.
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
  // The segmentation whose layout choice_ has.
  int64_t measured_size_ = 0;
  uint64_t smallest_ = UINT64_MAX;
  // By segment size, from 1 on.
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
