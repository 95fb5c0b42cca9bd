#ifndef HEARTH_ENGINE_STORE_EDGE_SOURCE_H_
#define HEARTH_ENGINE_STORE_EDGE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/npy_reader.h"

namespace hearth::store {

/// Consecutive edges, both ends of each.
struct EdgeBlock {
  std::vector<int64_t> sources;
  std::vector<int64_t> destinations;

  size_t size() const { return sources.size(); }
};

/// A list of edges that can be read again and again. Thread-compatible.
class EdgeSource {
 public:
  virtual ~EdgeSource() = default;

  virtual int64_t num_edges() const = 0;

  /// Makes `block` the edges `first` .. `first` + `count` - 1. Ends outside
  /// 0 .. num_nodes - 1 are INVALID_ARGUMENT naming the position.
  virtual absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) = 0;
};

/// That `edges` is an integer array of shape (2, E), sources first, or (E, 2).
absl::Status CheckEdgeHeader(const NpyReader& edges);

/// E. REQUIRES: CheckEdgeHeader.
int64_t NumEdges(const NpyReader& edges);

/// The edges in an array of shape (2, E) or (E, 2), in C or Fortran order.
/// `edges` must outlive it. REQUIRES: CheckEdgeHeader.
std::unique_ptr<EdgeSource> NewNpyEdgeSource(NpyReader& edges,
                                             int64_t num_nodes);

/// Bytes of an edge in a scratch file: both ends, 4 bytes each where they fit.
int64_t ScratchEdgeBytes(int64_t num_nodes);

/// Packs edges for a scratch file. Appends to `out`.
void AppendScratchEdge(int64_t num_nodes, int64_t source, int64_t destination,
                       std::vector<std::byte>& out);

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
                                                 int64_t num_nodes,
                                                 const ScratchExtent& extent);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_EDGE_SOURCE_H_
