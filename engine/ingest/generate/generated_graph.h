#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_GRAPH_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_GRAPH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generated_classes.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// Generated graphs as sources. Features, labels, split and edges are computed
/// when they are read: nothing is held, and each value is a pure function of
/// the options and its place.

namespace hearth::ingest {

/// Items of equal size that are computed on request. Thread-safe.
class ComputedItems {
 public:
  virtual ~ComputedItems() = default;

  virtual int64_t num_items() const = 0;

  /// Bytes of one item.
  virtual int64_t item_bytes() const = 0;

  /// Computes the items from `first` on into `out`, whose size is a multiple of
  /// item_bytes().
  virtual void Compute(int64_t first, absl::Span<std::byte> out) const = 0;
};

/// The items as a file, one after another, readable at any byte. Its time of
/// modification is always 1970. `path` is for messages.
std::unique_ptr<io::ReadableFile> NewComputedFile(
    std::unique_ptr<const ComputedItems> items, std::string path);

/// Bytes of memory that the centroids of features take.
uint64_t CentroidBytes(const GenerateOptions& options);

/// Rows of features: the centroid of the node's class plus noise. Centroids are
/// so close that a single row seldom tells its class for certain, while the
/// mean over neighbors does. REQUIRES: options.Validate(), and that `classes`
/// have the same options.
std::unique_ptr<ComputedItems> NewGeneratedFeatures(
    const GenerateOptions& options, const GeneratedClasses& classes);

/// Labels: the nodes' classes as int32.
std::unique_ptr<ComputedItems> NewGeneratedLabels(
    const GeneratedClasses& classes);

/// Nodes of train, valid and test: disjoint random sets of exactly their
/// shares, rounded down, as ascending int64. The part of a node follows from
/// its place in a permutation, so that no set is held: one pass over the nodes
/// counts the members in each 65,536 nodes, and a read scans from such a count.
/// CANCELLED after a stop. REQUIRES: options.Validate().
absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> NewGeneratedSplit(
    ImportContext& context, const GenerateOptions& options);

/// Begin of the paths of all arrays of a generated graph, for messages.
inline constexpr char kGeneratedSource[] = "generated";

/// A generated graph as a source: arrays are computed when they are read.
/// INVALID_ARGUMENT as Validate; RESOURCE_EXHAUSTED if the centroids of the
/// classes do not fit a quarter of the memory limit; CANCELLED after a stop.
absl::StatusOr<SourceGraph> OpenGenerated(ImportContext& context,
                                          const GenerateOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_GRAPH_H_
