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

namespace hearth::ingest {

/// Items of equal size that are computed when they are asked for. Thread-safe.
class ComputedItems {
 public:
  virtual ~ComputedItems() = default;

  virtual int64_t num_items() const = 0;

  /// Bytes of one.
  virtual int64_t item_bytes() const = 0;

  /// Fills `out`, which is a whole number of items, with those from `first` on.
  virtual void Compute(int64_t first, absl::Span<std::byte> out) const = 0;
};

/// The items one after the other, as a file that can be read at any byte. Its
/// time of modification is always 1970. `path` is for messages.
std::unique_ptr<io::ReadableFile> NewComputedFile(
    std::unique_ptr<const ComputedItems> items, std::string path);

/// Bytes of memory that the features' centroids take.
uint64_t CentroidBytes(const GenerateOptions& options);

/// Rows of features: the centroid of the node's class and noise around it. The
/// centroids are so near each other that a row by itself seldom tells its class
/// for certain, while the mean over neighbors does. REQUIRES:
/// options.Validate(), and that `classes` are of the same options.
std::unique_ptr<ComputedItems> NewGeneratedFeatures(
    const GenerateOptions& options, const GeneratedClasses& classes);

/// Labels: the nodes' classes as int32.
std::unique_ptr<ComputedItems> NewGeneratedLabels(
    const GeneratedClasses& classes);

/// The nodes of train, valid and test: disjoint random sets of exactly their
/// shares, rounded down, as ascending int64. A node's part follows from where a
/// permutation takes it, so that no set is held: one pass over the nodes counts
/// the members in each 65,536 of them, and a read scans from there. REQUIRES:
/// options.Validate(). CANCELLED.
absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> NewGeneratedSplit(
    ImportContext& context, const GenerateOptions& options);

/// The path of all arrays of a generated graph begins with it, in messages.
inline constexpr char kGeneratedSource[] = "generated";

/// A made-up graph as a source: its arrays are computed when they are read.
/// INVALID_ARGUMENT as Validate; RESOURCE_EXHAUSTED if the centroids of the
/// classes do not fit a quarter of the memory limit; CANCELLED.
absl::StatusOr<SourceGraph> OpenGenerated(ImportContext& context,
                                          const GenerateOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_GRAPH_H_
