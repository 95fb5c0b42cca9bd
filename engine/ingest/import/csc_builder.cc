#include "engine/ingest/import/csc_builder.h"

#include <algorithm>
#include <memory>
#include <string>

#include "engine/base/status_macros.h"
#include "engine/ingest/import/bucket_sorter.h"
#include "engine/ingest/import/edge_blocks.h"
#include "engine/ingest/import/edge_buckets.h"
#include "engine/io/file_system.h"

// 1. Read all edges once, checking every id, and distribute them to buckets of
//    consecutive destinations, which have about the same number of nodes each.
//    What does not fit memory goes to a scratch file, in pieces of one bucket.
// 2. Sort bucket after bucket, checking the pieces' checksums; remove the file.
// Buckets are many, so that few are larger than a sort, and most so small that
// it stays within the processor's caches.
// The memory limit is spent on: an eighth for blocks of edges, a quarter for
// the buckets, a quarter each for the two sorts at a time.

namespace hearth::ingest {
namespace {

constexpr uint64_t kMaxBuckets = 1024;
// Pieces of the scratch file that a disk reads well, and the least.
constexpr uint64_t kPieceBytes = 128 << 10;
constexpr uint64_t kMinPieceBytes = 4 << 10;

/// How many buckets to distribute the edges to within `memory_bytes`.
/// RESOURCE_EXHAUSTED if even the most that fit are too large to be sorted.
absl::StatusOr<int64_t> NumBuckets(const EdgeEnds& ends, int64_t num_edges,
                                   const SortBudget& budget,
                                   uint64_t memory_bytes) {
  const auto num_nodes = static_cast<uint64_t>(ends.num_destinations);
  const uint64_t wanted = std::min(memory_bytes / kPieceBytes, kMaxBuckets);
  // Half of a sort for positions, half for edges, were they evenly spread.
  const uint64_t half = static_cast<uint64_t>(budget.bytes) / 2;
  const uint64_t positions = num_nodes * sizeof(int64_t);
  const auto edge_bytes =
      static_cast<uint64_t>(budget.index_bytes + ScratchEdgeBytes(ends));
  const uint64_t needed =
      std::max(positions / half,
               static_cast<uint64_t>(num_edges) * edge_bytes / half) +
      1;
  const uint64_t most = std::min(num_nodes, memory_bytes / kMinPieceBytes);
  const uint64_t number = std::min(std::max(wanted, needed), most);
  const auto nodes_each =
      static_cast<int64_t>((num_nodes + number - 1) / number);
  HEARTH_RETURN_IF_ERROR(budget.Check(nodes_each, num_edges));
  return static_cast<int64_t>(number);
}

}  // namespace

absl::StatusOr<CscArrays> BuildCsc(ImportContext& context, EdgeSource& edges,
                                   const EdgeEnds& ends,
                                   const store::ArrayPlace& place) {
  const uint64_t quarter = context.memory_limit_bytes() / 4;
  const int64_t num_edges = edges.num_edges();
  const SortBudget budget = {store::SizeOf(IndexType(ends.num_sources)),
                             static_cast<int64_t>(quarter)};
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_buckets,
                          NumBuckets(ends, num_edges, budget, quarter));
  const std::string scratch_path = io::JoinPath(place.folder, kScratchName);
  EdgeBuckets buckets(context.files(), scratch_path, ends, num_edges,
                      num_buckets, quarter);
  context.Begin("checking",
                static_cast<uint64_t>(num_edges) * 2 * sizeof(int64_t));
  HEARTH_RETURN_IF_ERROR(ForEachEdgeBlock(
      context, edges,
      [&](const EdgeBlock& block) { return buckets.Add(block); }));
  HEARTH_RETURN_IF_ERROR(buckets.Finish());
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<CscWriter> writer,
      CscWriter::Create(context.files(), place, ends, num_edges));
  HEARTH_RETURN_IF_ERROR(SortBuckets(context, buckets, budget, *writer));
  if (buckets.has_scratch_file()) {
    HEARTH_RETURN_IF_ERROR(context.files().RemoveTree(scratch_path));
  }
  return writer->Finish();
}

}  // namespace hearth::ingest
