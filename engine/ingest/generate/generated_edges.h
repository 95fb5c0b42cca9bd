#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_EDGES_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_EDGES_H_

#include <array>
#include <cstdint>
#include <memory>

#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generated_classes.h"
#include "engine/ingest/source/edge_source.h"

/// Edges of generated graphs.

namespace hearth::ingest {

/// Levels of the recursion that one draw covers, and number of rows of the
/// square of cells that they make.
inline constexpr int kRmatLevels = 5;
inline constexpr uint32_t kRmatCells = 1u << (2 * kRmatLevels);

/// Draws five levels of the R-MAT recursion with one table lookup: an alias
/// table (Walker, 1977; Vose, 1991) over their 1,024 cells, as in
/// Huebschle-Schneider and Sanders, "Linear Work Generation of R-MAT Graphs"
/// (2020). Immutable, thread-safe.
class RmatRecursion {
 public:
  explicit RmatRecursion(const RmatGraph& graph);

  /// Cell for 32 random bits: row in the upper five bits of the result, column
  /// in the lower five.
  uint32_t Draw(uint32_t random) const {
    const Entry& entry = table_[random % kRmatCells];
    return random / kRmatCells < entry.threshold ? random % kRmatCells
                                                 : entry.alias;
  }

  /// Exact probability with which Draw returns `cell`: a multiple of 2^-32.
  double ProbabilityOf(uint32_t cell) const;

 private:
  struct Entry {
    /// Share of draws, of 2^22, that stay in this cell.
    uint32_t threshold = 0;
    uint32_t alias = 0;
  };

  std::array<Entry, kRmatCells> table_;
};

/// Edges of a generated graph, computed when they are read: each is a pure
/// function of the options and its number. There are self loops and repeated
/// edges.
///
/// R-MAT: the recursion divides a square of 2^L positions, 2^L >= num_nodes,
/// which are scaled to ranks. By itself it joins classes almost at random (with
/// the usual parameters the two ends are nearly independent). So that labels
/// can be learned from neighbors, half of the edges move their source, within
/// its group of num_classes ranks, to the class of the destination. With b = c
/// that changes no expected degree.
///
/// Communities that are classes: the destination's rank is drawn by a power
/// law; so is the source's, within one community: the destination's in a share
/// `inside` of the edges, otherwise any other.
///
/// Communities apart from classes: in a share `inside` of the edges both ends
/// are drawn by the power law among the members of one community, each with
/// equal probability; otherwise among all nodes, but from two communities. So
/// communities have equally many edges, and a few nodes are joined to many
/// communities. As for R-MAT, half of the edges move their source to the
/// destination's class, within its community.
///
/// REQUIRES: options.Validate(), and that `classes` have the same options.
std::unique_ptr<EdgeSource> NewGeneratedEdges(const GenerateOptions& options,
                                              const GeneratedClasses& classes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_EDGES_H_
