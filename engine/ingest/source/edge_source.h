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

namespace hearth::ingest {

/// Consecutive edges, both ends of each.
struct EdgeBlock {
  std::vector<int64_t> sources;
  std::vector<int64_t> destinations;

  size_t size() const { return sources.size(); }
};

/// Numbers of nodes at either end of the edges.
struct EdgeEnds {
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
};

/// A list of edges that can be read again and again. Thread-compatible.
class EdgeSource {
 public:
  virtual ~EdgeSource() = default;

  virtual int64_t num_edges() const = 0;

  /// Makes `block` the edges `first` .. `first` + `count` - 1; a pass asks for
  /// them from the first to the last. Ends out of range are INVALID_ARGUMENT
  /// naming the position.
  virtual absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) = 0;
};

/// How the two ends of an edge lie in an array.
enum class EdgeShape {
  kRows,   // (2, E): a row of sources, a row of destinations.
  kPairs,  // (E, 2): a source and a destination in each row.
  kEither  // Whatever it looks like; (2, 2) counts as rows.
};

/// OK if `edges` is an integer array of that shape.
absl::Status CheckEdgeHeader(const ArrayReader& edges,
                             EdgeShape shape = EdgeShape::kEither);

/// The edges in an array, sources first, in C or Fortran order.
/// INVALID_ARGUMENT as CheckEdgeHeader.
absl::StatusOr<std::unique_ptr<EdgeSource>> NewArrayEdgeSource(
    std::unique_ptr<ArrayReader> edges, const EdgeEnds& ends,
    EdgeShape shape = EdgeShape::kEither);

/// Bytes of an edge in a scratch file: both ends, 4 bytes each where they fit.
int64_t ScratchEdgeBytes(const EdgeEnds& ends);

/// Packs edges for a scratch file. Appends to `out`.
void AppendScratchEdge(const EdgeEnds& ends, int64_t source,
                       int64_t destination, std::vector<std::byte>& out);

/// Where edges lie in a scratch file.
struct ScratchExtent {
  int64_t first_edge = 0;
  int64_t num_edges = 0;
  /// CRC32C of their bytes.
  uint32_t crc32c = 0;
};

/// The edges of an extent, to be read from the first to the last, each time:
/// the last block of a pass is DATA_LOSS if they are not those that were
/// written. `file` must outlive it.
std::unique_ptr<EdgeSource> NewScratchEdgeSource(io::ReadableFile& file,
                                                 const EdgeEnds& ends,
                                                 const ScratchExtent& extent);

/// Each edge, and right after it the same edge reversed: edges 2i and 2i + 1
/// stand for edge i. REQUIRES: both ends are nodes of one type.
std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges);

/// Each edge reversed.
std::unique_ptr<EdgeSource> NewReversedEdges(std::unique_ptr<EdgeSource> edges);

/// The edges of a topology in CSC, destination after destination, to be read
/// from the first to the last, each time. INVALID_ARGUMENT, here or when they
/// are read, if indptr does not begin with 0, descends, or does not end with
/// the number of edges, and for ids out of range, naming the position.
/// REQUIRES: CheckCscHeaders.
absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends);

/// The same of arrays that outlive it and whose source ids are in range: what
/// is wrong with indptr is found when edges are read.
std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_EDGE_SOURCE_H_
