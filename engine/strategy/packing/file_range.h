#ifndef HEARTH_ENGINE_STRATEGY_PACKING_FILE_RANGE_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_FILE_RANGE_H_

#include <cstdint>

/// Pages, and ranges of a file that begin with one.

namespace hearth::strategy {

/// Bytes of a page: the unit in which disks read, and to which ranges are
/// aligned.
inline constexpr uint64_t kPageBytes = 4096;

inline constexpr uint64_t RoundUpToPage(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// A range of a file. Begins at a page boundary; the rest of its last page is
/// zeros.
struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  /// The offset at which the next range begins.
  uint64_t end() const { return offset + RoundUpToPage(bytes); }
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_FILE_RANGE_H_
