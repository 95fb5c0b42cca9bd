#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// In which batch each node is needed next: the arrays iters and ptr of Ginex
/// (section 3.4, figure 12). iters lists the batches of node 0, then those of
/// node 1, and so on, each list ascending, its first entry marked by the most
/// significant bit; one dummy entry, as large as can be, ends it. ptr[v] is
/// where node v stands in it.
///
/// Built in two passes over the batches, by Count and then Place; a third one
/// asks First and Advance. Memory: 8 bytes a node and 4 an access.
/// Single-owner.
class AccessTable {
 public:
  /// The batch of a node that is not needed again: above all others.
  static constexpr uint32_t kNever = UINT32_MAX;
  /// Batches are numbered below this.
  static constexpr int64_t kMaxBatches = int64_t{1} << 31;

  /// RESOURCE_EXHAUSTED if the memory for so many nodes is not to be had.
  static absl::StatusOr<AccessTable> Make(int64_t num_nodes);

  /// First pass: one more access of each node. INVALID_ARGUMENT, naming it,
  /// for a node that is not below num_nodes.
  absl::Status Count(absl::Span<const store::NodeId> nodes);

  /// Between the passes: RESOURCE_EXHAUSTED if there is no memory for as many
  /// accesses as were counted.
  absl::Status BeginPlacing();

  /// Second pass, in order of the batches. REQUIRES: the nodes counted.
  void Place(uint32_t batch, absl::Span<const store::NodeId> nodes);

  /// Ends the second pass.
  void EndPlacing();

  int64_t num_accesses() const { return num_accesses_; }

  /// The first batch of a node not yet advanced. REQUIRES: it has one.
  uint32_t First(store::NodeId node) const {
    return iters_[ptr_[node]] & ~kFirst;
  }

  /// next[i] = the batch in which nodes[i], needed in the present one, is
  /// needed next; kNever if it is not.
  void Advance(absl::Span<const store::NodeId> nodes,
               absl::Span<uint32_t> next);

  /// Bytes of a table of this many nodes and accesses.
  static uint64_t MemoryBytes(int64_t num_nodes, int64_t num_accesses);

 private:
  // The mark of a node's first entry.
  static constexpr uint32_t kFirst = uint32_t{1} << 31;

  AccessTable(io::AlignedMemory ptr_memory, int64_t num_nodes);

  io::AlignedMemory ptr_memory_;
  io::AlignedMemory iters_memory_;
  // [num_nodes].
  absl::Span<int64_t> ptr_;
  // [num_accesses + 1].
  absl::Span<uint32_t> iters_;
  int64_t num_accesses_ = 0;
};

/// How a cache of rows changes once a batch has been brought together (Ginex,
/// section 3.3): row in_ids[j] takes the place of row out_ids[j]. All three
/// have the same length.
struct Changeset {
  std::vector<store::NodeId> in_ids;
  std::vector<store::NodeId> out_ids;
  /// Where in_ids[j] stands in the batch.
  std::vector<int32_t> in_positions;
};

/// Takes a plan as it is made.
class ChangesetSink {
 public:
  virtual ~ChangesetSink() = default;

  /// Once, first: the rows that the cache holds before the first batch, those
  /// needed first foremost.
  virtual absl::Status Initialize(absl::Span<const store::NodeId> ids) = 0;

  /// For every batch, in order.
  virtual absl::Status Update(int64_t batch, const Changeset& changeset) = 0;
};

/// The rows that a cache will be asked for.
struct CacheShape {
  /// Nodes are numbered below this.
  int64_t num_nodes = 0;
  /// Rows it holds.
  int64_t capacity = 0;
};

/// The totals of a plan, in rows.
struct ChangesetTotals {
  /// Over all batches.
  int64_t needed = 0;
  /// Read to initialize the cache.
  int64_t filled = 0;
  /// Read in the course of the batches. No cache of that size, starting empty,
  /// can do with fewer than filled + missed.
  int64_t missed = 0;
};

/// The provably optimal cache of `trace` (Ginex, section 3.4): before the first
/// batch it holds the rows that are needed first; after each batch, of the rows
/// it holds and those of the batch, the ones needed again soonest (Belady, with
/// rows that bypass the cache). Of rows needed at the same time those inside
/// stay, then those of smaller number; a row not needed again never enters.
///
/// Three passes over the trace. Time: one visit of each access in each pass,
/// and log(rows) for each row that enters or leaves. Memory: see
/// ChangesetMemoryBytes. One thread, the caller's: it is meant to run beside
/// the sampling of the batches after these (section 3.1).
///
/// Errors of the trace and the sink are returned; INVALID_ARGUMENT for nodes
/// out of range and too many batches; RESOURCE_EXHAUSTED without memory;
/// CANCELLED, between two batches, when `stop` is requested.
absl::StatusOr<ChangesetTotals> PlanChangesets(plan::AccessTrace& trace,
                                               const CacheShape& shape,
                                               ChangesetSink& sink,
                                               std::stop_token stop);

/// Memory that PlanChangesets takes at most: 8 bytes and a bit a node, 4 bytes
/// an access, 24 a row of the cache, 88 a row of the largest batch, 32 a batch.
uint64_t ChangesetMemoryBytes(const CacheShape& shape, int64_t num_accesses,
                              int64_t largest_batch, int64_t num_batches);

/// The plan of a cache in a file (the runtime files init and update of Ginex,
/// section 3.1): written as it is made, read batch by batch. One record for the
/// initial rows and one for each batch, each with a CRC32C; where they are is
/// kept in memory, 8 bytes a batch. A scratch format: in the machine's byte
/// order, of this version of Hearth alone, not synced.

/// Writes the file. Single-owner.
class ChangesetFileWriter final : public ChangesetSink {
 public:
  /// `files` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<ChangesetFileWriter>> Create(
      io::FileSystem& files, std::string path);

  /// Removes the file if it was not finished.
  ~ChangesetFileWriter() override;

  /// Both append a record: RESOURCE_EXHAUSTED if the disk is full.
  absl::Status Initialize(absl::Span<const store::NodeId> ids) override;
  absl::Status Update(int64_t batch, const Changeset& changeset) override;

  /// Ends the file: where its records begin, and where the last one ends.
  absl::StatusOr<std::vector<uint64_t>> Finish();

 private:
  ChangesetFileWriter(io::FileSystem& files, std::string path,
                      std::unique_ptr<io::WritableFile> file);

  absl::Status Append(const Changeset& changeset);

  io::FileSystem& files_;
  const std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::vector<uint64_t> offsets_ = {0};
  bool finished_ = false;
};

/// Reads the file. Thread-safe.
class ChangesetFileReader {
 public:
  /// `offsets` is what Finish gave. DATA_LOSS if the file has another size.
  static absl::StatusOr<std::unique_ptr<ChangesetFileReader>> Open(
      io::FileSystem& files, const std::string& path,
      std::vector<uint64_t> offsets);

  /// The initial rows. A damaged record is read once more, then DATA_LOSS
  /// naming the file and the offset.
  absl::StatusOr<std::vector<store::NodeId>> ReadInitial() const;

  /// The changeset of batch `batch`, likewise. REQUIRES: it was written.
  absl::StatusOr<Changeset> ReadUpdate(int64_t batch) const;

 private:
  ChangesetFileReader(std::unique_ptr<io::ReadableFile> file,
                      std::vector<uint64_t> offsets);

  absl::StatusOr<Changeset> Read(size_t record) const;

  const std::unique_ptr<io::ReadableFile> file_;
  const std::vector<uint64_t> offsets_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_H_
