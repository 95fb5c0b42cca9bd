#ifndef HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

/// The topology in CSC from a list of edges: edges are read once, distributed
/// to buckets by destination, and sorted bucket by bucket by two threads.

namespace hearth::ingest {

/// An edge in a bucket; End is int32_t or int64_t.
template <typename End>
struct PackedEdge {
  End source;
  End destination;
};

/// Edges in buckets. A bucket has the edges into a range of consecutive nodes,
/// in the order in which they were added; edges that exceed the memory are in a
/// scratch file. One thread adds edges; after Finish any number of threads may
/// read.
class EdgeBuckets {
 public:
  struct Bucket {
    int64_t first_node = 0;
    int64_t num_nodes = 0;
    int64_t num_edges = 0;
    /// Edges of the bucket: first those in the scratch file, then those in
    /// memory, in blocks of piece_bytes. The last block may be partly filled.
    std::vector<ScratchExtent> spilled;
    std::vector<std::unique_ptr<std::byte[]>> kept;
  };

  /// `num_edges` edges will be added. REQUIRES: `num_buckets` is 1 or more, and
  /// `memory_bytes` suffice for one edge in each. `files` must outlive this.
  EdgeBuckets(io::FileSystem& files, std::string scratch_path,
              const EdgeEnds& ends, int64_t num_edges, int64_t num_buckets,
              uint64_t memory_bytes);

  /// Adds edges. REQUIRES: no more than num_edges in total, with ends in range.
  absl::Status Add(const EdgeBlock& block);

  /// Ends adding.
  absl::Status Finish();

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Bytes of an edge: 8 (a PackedEdge<int32_t>) or 16 (a PackedEdge<int64_t>).
  int64_t edge_bytes() const { return edge_bytes_; }
  /// Bytes of the bucket's edges in the scratch file.
  uint64_t SpilledBytes(const Bucket& bucket) const;
  /// Whether there is a scratch file, which the caller has to remove.
  bool has_scratch_file() const { return scratch_bytes_ > 0; }

  /// Reads the edges of one bucket, in several passes. Single-owner.
  class Reader {
   public:
    /// `buckets` must outlive this.
    explicit Reader(const EdgeBuckets& buckets) : buckets_(buckets) {}

    /// Begins to read a bucket. With `hold`, its edges in the scratch file are
    /// read once and held in memory; without, every pass reads them piece by
    /// piece.
    void Begin(const Bucket& bucket, bool hold);

    /// Visits all edges in order, in pieces of PackedEdges. DATA_LOSS if the
    /// scratch file is no longer as written.
    absl::Status ForEachPiece(
        absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> visit);

   private:
    const EdgeBuckets& buckets_;
    const Bucket* bucket_ = nullptr;
    bool hold_ = false;
    bool is_held_ = false;
    std::vector<std::byte> memory_;
  };

 private:
  /// Unused bytes at the end of a bucket's last block.
  struct FreeBytes {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
  };

  template <typename End>
  absl::Status AddAs(const EdgeBlock& block);
  /// Gives a bucket whose last block is full, or that has no block yet, an
  /// empty last block.
  absl::Status StartBlock(size_t number);
  absl::Status Spill(Bucket& bucket);
  absl::Status ReadSpilled(const ScratchExtent& extent,
                           absl::Span<std::byte> out) const;

  io::FileSystem& files_;
  const std::string scratch_path_;
  const int64_t edge_bytes_;
  const uint64_t all_bytes_;
  const bool fits_memory_;
  /// The bucket of node n is n * factor_ / 2^63.
  uint64_t factor_;
  uint64_t piece_bytes_;
  std::vector<Bucket> buckets_;
  std::vector<FreeBytes> free_bytes_;
  std::unique_ptr<io::WritableFile> output_;
  std::unique_ptr<io::ReadableFile> input_;
  uint64_t scratch_bytes_ = 0;
};

/// Memory of one sort.
struct SortBudget {
  /// Size of an element of indices.
  int64_t index_bytes = 4;
  int64_t bytes = 0;

  /// Bytes of the positions of `num_nodes` nodes.
  static int64_t PositionBytes(int64_t num_nodes);
  /// Most edges into `num_nodes` nodes that can be sorted at a time; 0 if none.
  int64_t WindowEdges(int64_t num_nodes) const;
  /// RESOURCE_EXHAUSTED, with the numbers, if not even one edge into
  /// `num_nodes` nodes could be sorted at a time.
  absl::Status Check(int64_t num_nodes, int64_t num_edges) const;
};

/// Sorts the edges of all buckets by destination and writes them; edges into
/// one node keep their order. Two threads sort one bucket each, each within
/// `budget`. RESOURCE_EXHAUSTED as SortBudget::Check, DATA_LOSS as
/// EdgeBuckets::Reader.
absl::Status SortBuckets(ImportContext& context, const EdgeBuckets& buckets,
                         const SortBudget& budget, CscWriter& writer);

/// Name of the scratch file of edges, in the folder of `place`; BuildCsc
/// removes it before it returns OK.
inline constexpr char kScratchName[] = "sorting.scratch";

/// Sorts edges by destination, keeping the order of edges into one node: the
/// topology in CSC. Reads the edges once, on another thread. The result does
/// not depend on the memory limit: edges that exceed it go through a scratch
/// file of at most num_edges * ScratchEdgeBytes bytes. RESOURCE_EXHAUSTED, with
/// the numbers, if the limit is too low even so.
absl::StatusOr<CscArrays> BuildCsc(ImportContext& context, EdgeSource& edges,
                                   const EdgeEnds& ends,
                                   const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_
