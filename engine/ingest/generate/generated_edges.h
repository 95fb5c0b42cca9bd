#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_EDGES_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_EDGES_H_

#include <array>
#include <cstdint>
#include <memory>

#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generated_classes.h"
#include "engine/ingest/source/edge_source.h"

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

/// The edges of a generated graph, computed when they are read: each is a pure
/// function of the options and its number. Loops and repeats occur.
///
/// R-MAT: the recursion divides a square of 2^L positions, 2^L >= num_nodes,
/// which are scaled to ranks. By itself it joins classes almost at random (with
/// the usual parameters the two ends are nearly independent); so that labels
/// can be learned from neighbors, half of the edges take their source's place
/// within its group of num_classes ranks from their destination. With b = c
/// that changes no expected degree.
///
/// Communities that are classes: the destination's rank is drawn with
/// probabilities by a power law, the source's likewise within one community:
/// the destination's, in a share `inside` of the edges, and otherwise any
/// other.
///
/// Communities apart from classes: in a share `inside` of the edges both ends
/// are drawn by the power law among the members of one community, any with
/// equal probability, and otherwise among all nodes, but of two communities: so
/// communities have edges alike, and a few nodes are joined to many of them. As
/// for R-MAT, half of the edges have their source moved to the destination's
/// class, within its community.
///
/// REQUIRES: options.Validate(), and that `classes` are of the same options.
std::unique_ptr<EdgeSource> NewGeneratedEdges(const GenerateOptions& options,
                                              const GeneratedClasses& classes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_EDGES_H_
