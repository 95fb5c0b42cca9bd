#ifndef HEARTH_ENGINE_INGEST_SOURCE_EDGE_SOURCE_H_
#define HEARTH_ENGINE_INGEST_SOURCE_EDGE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"

/// Lists of edges that can be read in several passes: from an array, a scratch
/// file or a topology in CSC, and lists made from other lists by reversing
/// edges.

namespace hearth::ingest {

/// Consecutive edges: edge i goes from sources[i] to destinations[i].
struct EdgeBlock {
  std::vector<int64_t> sources;
  std::vector<int64_t> destinations;

  size_t size() const { return sources.size(); }
};

/// Numbers of nodes that the sources and the destinations of edges come from.
struct EdgeEnds {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
};

/// A list of edges that can be read again and again. Thread-compatible.
class EdgeSource {
 public:
  virtual ~EdgeSource() = default;

  virtual int64_t num_edges() const = 0;

  /// Sets `block` to the edges `first` .. `first` + `count` - 1. A pass reads
  /// the edges in order, from the first to the last. INVALID_ARGUMENT, naming
  /// the position, for a node id out of range.
  virtual absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) = 0;
};

/// Layout of an array of edges.
enum class EdgeShape {
  kRows,   // (2, E): a row of sources, a row of destinations.
  kPairs,  // (E, 2): a source and a destination in each row.
  kEither  // Whatever it looks like; (2, 2) counts as rows.
};

/// INVALID_ARGUMENT unless `edges` is an integer array of shape `shape`.
absl::Status CheckEdgeHeader(const ArrayReader& edges,
                             EdgeShape shape = EdgeShape::kEither);

/// Edges of an array, source before destination, in C or Fortran order. Errors
/// of CheckEdgeHeader.
absl::StatusOr<std::unique_ptr<EdgeSource>> NewArrayEdgeSource(
    std::unique_ptr<ArrayReader> edges, const EdgeEnds& ends,
    EdgeShape shape = EdgeShape::kEither);

/// Bytes of an edge in a scratch file: 8 if all ids of both ends fit int32,
/// otherwise 16.
int64_t ScratchEdgeBytes(const EdgeEnds& ends);

/// Appends an edge to `out` as a scratch file holds it.
void AppendScratchEdge(const EdgeEnds& ends, int64_t source,
                       int64_t destination, std::vector<std::byte>& out);

/// Place of consecutive edges in a scratch file.
struct ScratchExtent {
  int64_t first_edge = 0;
  int64_t num_edges = 0;
  /// CRC32C of the bytes of these edges.
  uint32_t crc32c = 0;
};

/// Edges of an extent of a scratch file. Each pass reads them from the first to
/// the last; its last block is DATA_LOSS if the bytes do not match the
/// checksum. `file` must outlive the source.
std::unique_ptr<EdgeSource> NewScratchEdgeSource(io::ReadableFile& file,
                                                 const EdgeEnds& ends,
                                                 const ScratchExtent& extent);

/// Each edge, directly followed by its reverse: edges 2i and 2i + 1 come from
/// edge i. REQUIRES: both ends are nodes of one type.
std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges);

/// Each edge, reversed.
std::unique_ptr<EdgeSource> NewReversedEdges(std::unique_ptr<EdgeSource> edges);

/// Edges of a topology in CSC, destination by destination. Each pass reads them
/// from the first to the last. INVALID_ARGUMENT, here or when edges are read,
/// naming the position, if indptr does not begin with 0, descends, or does not
/// end with the number of edges, or if an id is out of range. REQUIRES:
/// CheckCscHeaders.
absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends);

/// Edges of a topology in CSC whose source ids are known to be in range;
/// `indptr` and `indices` must outlive the source. Errors of indptr show when
/// edges are read.
std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_EDGE_SOURCE_H_
