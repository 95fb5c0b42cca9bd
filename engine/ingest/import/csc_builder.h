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

namespace hearth::ingest {

/// Both ends of an edge as they lie in a bucket.
template <typename End>
struct PackedEdge {
  End source;
  End destination;
};

/// Edges distributed to buckets, each of which has those into some consecutive
/// nodes, in the order in which they came. What exceeds the memory goes to a
/// scratch file. Filled by one thread; then many may read.
class EdgeBuckets {
 public:
  struct Bucket {
    int64_t first_node = 0;
    int64_t num_nodes = 0;
    int64_t num_edges = 0;
    /// Its edges in the scratch file, then those in memory: blocks of
    /// piece_bytes, of which the last may be filled in part.
    std::vector<ScratchExtent> spilled;
    std::vector<std::unique_ptr<std::byte[]>> kept;
  };

  /// For `num_edges` edges; `num_buckets` is at least one. `memory_bytes` is at
  /// least the bytes of an edge for each. `files` must outlive this.
  EdgeBuckets(io::FileSystem& files, std::string scratch_path,
              const EdgeEnds& ends, int64_t num_edges, int64_t num_buckets,
              uint64_t memory_bytes);

  /// The next edges. REQUIRES: no more than num_edges in all, whose ends are in
  /// range.
  absl::Status Add(const EdgeBlock& block);

  /// Ends the adding.
  absl::Status Finish();

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Bytes of each edge: ends are of 4 bytes each if it is 8, else of 8.
  int64_t edge_bytes() const { return edge_bytes_; }
  /// Bytes of the bucket in the scratch file.
  uint64_t SpilledBytes(const Bucket& bucket) const;
  /// Whether there is a scratch file. It is left to the caller to be removed.
  bool has_scratch_file() const { return scratch_bytes_ > 0; }

  /// Reads the edges of one bucket, again and again. Single-owner.
  class Reader {
   public:
    /// `buckets` must outlive this.
    explicit Reader(const EdgeBuckets& buckets) : buckets_(buckets) {}

    /// Begins to read a bucket. With `hold`, what is spilled is read once and
    /// held in memory, else piece by piece in each pass.
    void Begin(const Bucket& bucket, bool hold);

    /// Visits all edges, PackedEdges, in order. DATA_LOSS if they are not what
    /// was written.
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
  /// The free part of a bucket's last block of memory.
  struct Room {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
  };

  template <typename End>
  absl::Status AddAs(const EdgeBlock& block);
  /// Makes room for edges in a bucket whose last block is full, or absent.
  absl::Status MakeRoom(size_t number);
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
  std::vector<Room> rooms_;
  std::unique_ptr<io::WritableFile> output_;
  std::unique_ptr<io::ReadableFile> input_;
  uint64_t scratch_bytes_ = 0;
};

/// Memory of one sort: what its parts take, and what they may take.
struct SortBudget {
  /// Bytes of an element of indices.
  int64_t index_bytes = 4;
  int64_t bytes = 0;

  /// Bytes of the positions of `num_nodes` nodes.
  static int64_t PositionBytes(int64_t num_nodes);
  /// Sorted edges of `num_nodes` nodes that fit at a time; 0 if none.
  int64_t WindowEdges(int64_t num_nodes) const;
  /// RESOURCE_EXHAUSTED, with the numbers, if the edges of so many nodes cannot
  /// be sorted at all.
  absl::Status Check(int64_t num_nodes, int64_t num_edges) const;
};

/// Sorts the edges of all buckets by destination and writes them; edges of one
/// node keep their order. Two threads sort a bucket each, with a budget each.
/// RESOURCE_EXHAUSTED as SortBudget::Check, DATA_LOSS as EdgeBuckets::Reader.
absl::Status SortBuckets(ImportContext& context, const EdgeBuckets& buckets,
                         const SortBudget& budget, CscWriter& writer);

/// The file of distributed edges, in the place's folder; gone when BuildCsc
/// returns OK.
inline constexpr char kScratchName[] = "sorting.scratch";

/// Sorts edges by destination, keeping their order within one: the topology in
/// CSC. They are read once. The result does not depend on the memory limit:
/// what exceeds it goes through a scratch file of up to num_edges *
/// ScratchEdgeBytes. RESOURCE_EXHAUSTED, with the numbers, where even that does
/// not suffice.
absl::StatusOr<CscArrays> BuildCsc(ImportContext& context, EdgeSource& edges,
                                   const EdgeEnds& ends,
                                   const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_CSC_BUILDER_H_
