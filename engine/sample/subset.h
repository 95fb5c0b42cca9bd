#ifndef HEARTH_ENGINE_SAMPLE_SUBSET_H_
#define HEARTH_ENGINE_SAMPLE_SUBSET_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/random.h"

namespace hearth::sample {

/// Draws uniform subsets without replacement. Single-owner: it keeps scratch
/// memory.
class SubsetDrawer {
 public:
  /// `count` distinct numbers of 0 .. bound - 1, ascending; each subset of that
  /// size is equally likely. Draws `count` numbers from `random` (Floyd's
  /// algorithm: Bentley and Floyd, "A Sample of Brilliance", CACM 1987). The
  /// result is valid until the next call. REQUIRES: 0 <= count <= bound.
  absl::Span<const int64_t> Draw(int64_t bound, int64_t count,
                                 RandomStream& random);

 private:
  void InsertSorted(int64_t bound, int64_t count, RandomStream& random);
  void MarkBits(int64_t bound, int64_t count, RandomStream& random);

  std::vector<int64_t> chosen_;
  // One bit per number below the bound; all zero between calls.
  std::vector<uint64_t> bits_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SUBSET_H_
