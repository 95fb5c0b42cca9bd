#include "engine/plan/layout/layout_search.h"

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
#include "engine/plan/layout/read_estimate.h"
#include "engine/plan/layout/segment_planner.h"
#include "engine/plan/layout/space_estimate.h"

// 1. If everything packed fits, that is it: no layout reads fewer bytes.
// 2. Estimate the space of every segment size, and try some, from the first
//    that seems to fit on: such as make equal segments, since of those that
//    make as many these read the least. The last one, a single segment, stores
//    every row once: no layout is smaller, but for the rounding to pages.
// 3. Trying is reordering a sample of segments and counting what they read. The
//    cheapest size that fits exactly is the choice.
// 4. Between it and the next smaller one tried, which does not fit or reads
//    more, look for a better one by halving.

namespace hearth::plan {
namespace {

// The estimate of algorithm 2 may be this much too large.
constexpr double kTolerance = 1.05;

/// The sizes, ascending from 2 on, that divide `num_batches` into equal
/// segments, as far as that can be.
std::vector<int64_t> EvenSizes(int64_t num_batches) {
  std::vector<int64_t> sizes;
  for (int64_t size = 2; size <= num_batches; ++size) {
    const int64_t segments = (num_batches + size - 1) / size;
    if ((num_batches + segments - 1) / segments == size) sizes.push_back(size);
  }
  return sizes;
}

/// `count` of `sizes`, spread evenly, the first and the last among them; all
/// if there are no more.
std::vector<int64_t> SomeOf(absl::Span<const int64_t> sizes, int64_t count) {
  std::vector<int64_t> some;
  const auto last = std::ssize(sizes) - 1;
  count = std::min<int64_t>(count, last + 1);
  for (int64_t i = 0; i < count; ++i) {
    some.push_back(sizes[count == 1 ? last : i * last / (count - 1)]);
  }
  return some;
}

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
    sizes_ = EvenSizes(input_.trace->num_batches());
    HEARTH_RETURN_IF_ERROR(Try(FirstSizes()));
    HEARTH_ASSIGN_OR_RETURN(int64_t chosen, Cheapest());
    if (chosen == 0) return Refused();
    HEARTH_RETURN_IF_ERROR(Refine(chosen));
    LayoutCandidate& candidate = Candidate(chosen);
    // The layout at hand may be that of another one.
    HEARTH_RETURN_IF_ERROR(Measure(candidate).status());
    return Chosen(candidate, "it reads the least of those that fit");
  }

 private:
  Segmentation SegmentsOf(int64_t size) const {
    return {.num_batches = input_.trace->num_batches(),
            .segment_size = size,
            .max_rows = limits_.max_cache_rows,
            .seed = options_.seed};
  }

  LayoutCandidate& Candidate(int64_t size) {
    return *std::find_if(choice_.candidates.begin(), choice_.candidates.end(),
                         [&](const LayoutCandidate& candidate) {
                           return candidate.segment_size == size;
                         });
  }

  /// The exact layout of a candidate; whether it is within the limit.
  absl::StatusOr<bool> Measure(LayoutCandidate& candidate) {
    HEARTH_ASSIGN_OR_RETURN(
        choice_.layout,
        MeasureLayout(input_, SegmentsOf(candidate.segment_size), stop_));
    candidate.exact_bytes = choice_.layout.total_bytes() + limits_.other_bytes;
    smallest_ = std::min(smallest_, *candidate.exact_bytes);
    return *candidate.exact_bytes <= limits_.disk_bytes;
  }

  /// To begin with; the size 1 was measured already.
  std::vector<int64_t> FirstSizes() const {
    // The rest is for Refine.
    const int64_t count = std::max<int64_t>(1, (options_.max_tried + 1) / 2);
    if (std::ssize(sizes_) <= count) return sizes_;
    const double fitting = static_cast<double>(limits_.disk_bytes) * kTolerance;
    size_t first = 0;
    while (first + 1 < sizes_.size() &&
           static_cast<double>(estimates_[sizes_[first] - 1]) > fitting) {
      ++first;
    }
    return SomeOf(absl::MakeConstSpan(sizes_).subspan(first), count);
  }

  /// Moves `chosen` to a smaller size that is better, if there is one.
  absl::Status Refine(int64_t& chosen) {
    int64_t below = 1;
    for (const LayoutCandidate& candidate : choice_.candidates) {
      if (candidate.segment_size < chosen) {
        below = std::max(below, candidate.segment_size);
      }
    }
    while (chosen - below > 1 && choice_.num_tried < options_.max_tried) {
      const int64_t middle = below + (chosen - below) / 2;
      HEARTH_RETURN_IF_ERROR(Try({middle}));
      HEARTH_ASSIGN_OR_RETURN(const int64_t cheapest, Cheapest());
      (cheapest == middle ? chosen : below) = middle;
    }
    return absl::OkStatus();
  }

  absl::Status Try(const std::vector<int64_t>& sizes) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<SegmentPlanner> planner,
        SegmentPlanner::Make(*input_.trace, *input_.levels));
    for (const int64_t size : sizes) {
      LayoutCandidate candidate = {.segment_size = size,
                                   .estimated_bytes = estimates_[size - 1]};
      HEARTH_ASSIGN_OR_RETURN(
          candidate.estimated_read_bytes,
          EstimateReadBytes(input_, SegmentsOf(size),
                            std::max<int64_t>(1, options_.max_sampled_batches),
                            *planner, stop_));
      choice_.candidates.push_back(candidate);
      ++choice_.num_tried;
    }
    std::sort(choice_.candidates.begin(), choice_.candidates.end(),
              [](const LayoutCandidate& a, const LayoutCandidate& b) {
                return a.segment_size < b.segment_size;
              });
    return absl::OkStatus();
  }

  /// The size that reads the least of those tried that fit; 0 if none does.
  absl::StatusOr<int64_t> Cheapest() {
    std::vector<LayoutCandidate*> order;
    for (LayoutCandidate& candidate : choice_.candidates) {
      if (candidate.estimated_read_bytes) order.push_back(&candidate);
    }
    // Of equal ones, the smaller segments come first.
    std::stable_sort(order.begin(), order.end(),
                     [](const LayoutCandidate* a, const LayoutCandidate* b) {
                       return *a->estimated_read_bytes <
                              *b->estimated_read_bytes;
                     });
    for (LayoutCandidate* candidate : order) {
      if (!candidate->exact_bytes) {
        HEARTH_RETURN_IF_ERROR(Measure(*candidate).status());
      }
      if (*candidate->exact_bytes <= limits_.disk_bytes) {
        return candidate->segment_size;
      }
    }
    return 0;
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
  uint64_t smallest_ = UINT64_MAX;
  // By segment size, from 1 on.
  std::vector<uint64_t> estimates_;
  // That may be tried, ascending.
  std::vector<int64_t> sizes_;
};

}  // namespace

absl::StatusOr<LayoutChoice> SearchLayout(const LayoutInput& input,
                                          const LayoutLimits& limits,
                                          const LayoutSearchOptions& options,
                                          const std::stop_token& stop) {
  return Search(input, limits, options, stop).Run();
}

}  // namespace hearth::plan
