#ifndef HEARTH_ENGINE_INGEST_GENERATE_RMAT_RECURSION_H_
#define HEARTH_ENGINE_INGEST_GENERATE_RMAT_RECURSION_H_

#include <array>
#include <cstdint>

#include "engine/ingest/generate/generate_options.h"

namespace hearth::ingest {

/// Levels of the recursion that are drawn at once, and the cells that these
/// divide a square into.
inline constexpr int kRmatLevels = 5;
inline constexpr uint32_t kRmatCells = 1u << (2 * kRmatLevels);

/// Draws five levels of the R-MAT recursion with one table lookup: an alias
/// table (Walker, 1977; Vose, 1991) over their 1,024 cells, as in
/// Huebschle-Schneider and Sanders, "Linear Work Generation of R-MAT Graphs"
/// (2020). Immutable, thread-safe.
class RmatRecursion {
 public:
  explicit RmatRecursion(const RmatGraph& graph);

  /// A cell for 32 random bits: its row in the upper five bits, its column in
  /// the lower five.
  uint32_t Draw(uint32_t random) const {
    const Entry& entry = table_[random % kRmatCells];
    return random / kRmatCells < entry.threshold ? random % kRmatCells
                                                 : entry.alias;
  }

  /// The exact probability with which Draw gives `cell`: a multiple of 2^-32.
  double ProbabilityOf(uint32_t cell) const;

 private:
  struct Entry {
    /// The share, of 2^22, of draws that stay in this cell.
    uint32_t threshold = 0;
    uint32_t alias = 0;
  };

  std::array<Entry, kRmatCells> table_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_RMAT_RECURSION_H_
