#ifndef HEARTH_ENGINE_INGEST_EXPORT_FORMAT_BYTES_H_
#define HEARTH_ENGINE_INGEST_EXPORT_FORMAT_BYTES_H_

#include <cstdint>
#include <optional>

#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// The form in which a format writes edges.
enum class EdgeForm {
  kPairs,      // Both ends of each edge, 8 bytes each.
  kAsGiven,    // CSC where the source has it, else pairs.
  kSortedCsc,  // CSC; a list is sorted in scratch files first.
  kText,       // A line of text for each edge.
  kGzipText,   // The same, compressed.
};

/// The parts of a format that decide how many bytes its files take.
struct FormatSize {
  EdgeForm edges = EdgeForm::kPairs;
  /// Bytes of a feature; nullopt = as many as the source's type has when it is
  /// stored.
  std::optional<uint64_t> feature_bytes = std::nullopt;
  /// Whether features, labels and split are written.
  bool has_node_data = true;
};

/// Bytes of a feature as text such as "-1.17549435e-38,", compressed to the
/// half.
inline constexpr uint64_t kGzipFeatureBytes = 8;

/// Bytes that writing a graph takes on the disk, scratch included, told from
/// its headers: never less, but for compressed text, which is taken to shrink
/// to the half. REQUIRES: CheckHeaders.
uint64_t BytesToWrite(const SourceGraph& graph, const FormatSize& size);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_FORMAT_BYTES_H_
