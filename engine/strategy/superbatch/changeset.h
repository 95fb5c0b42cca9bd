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

/// The optimal feature cache of a superbatch: when each node is needed next
/// (AccessTable), how the cache changes after each batch (PlanChangesets), and
/// the file of these changes.

namespace hearth::strategy {

/// In which batch each node is needed next: the arrays iters and ptr of Ginex
/// (section 3.4, figure 12). iters lists the batches that need node 0, then the
/// batches that need node 1, and so on; each node's list ascends, and its first
/// entry is marked by the most significant bit; a last dummy entry is
/// UINT32_MAX. ptr[v] is node v's current index in iters.
///
/// Built in two passes over the batches, by Count and then Place; a third pass
/// calls First and Advance. Memory: 8 bytes a node and 4 bytes an access.
/// Single-owner.
class AccessTable {
 public:
  /// The next batch of a node that is not needed again: above all batch
  /// numbers.
  static constexpr uint32_t kNever = UINT32_MAX;
  /// Batches are numbered below this.
  static constexpr int64_t kMaxBatches = int64_t{1} << 31;

  /// RESOURCE_EXHAUSTED if there is no memory for `num_nodes` nodes.
  static absl::StatusOr<AccessTable> Make(int64_t num_nodes);

  /// First pass: counts one access of each node. INVALID_ARGUMENT, naming the
  /// node, for one that is not below num_nodes.
  absl::Status Count(absl::Span<const store::NodeId> nodes);

  /// Between the passes. RESOURCE_EXHAUSTED if there is no memory for the
  /// counted accesses.
  absl::Status BeginPlacing();

  /// Second pass, in order of the batches. REQUIRES: the same nodes as were
  /// counted.
  void Place(uint32_t batch, absl::Span<const store::NodeId> nodes);

  /// Ends the second pass.
  void EndPlacing();

  int64_t num_accesses() const { return num_accesses_; }

  /// The first batch that needs `node`. REQUIRES: a batch needs it, and it was
  /// not advanced.
  uint32_t First(store::NodeId node) const {
    return iters_[ptr_[node]] & ~kFirst;
  }

  /// Third pass, for the nodes of one batch: next[i] = the batch after it that
  /// needs nodes[i]; kNever if none does.
  void Advance(absl::Span<const store::NodeId> nodes,
               absl::Span<uint32_t> next);

  /// Bytes of a table.
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

/// How a cache of rows changes once a batch has been assembled (Ginex, section
/// 3.3): row in_ids[j] takes the place of row out_ids[j]. All three lists have
/// the same length.
struct Changeset {
  std::vector<store::NodeId> in_ids;
  std::vector<store::NodeId> out_ids;
  /// The position of in_ids[j] among the batch's input nodes.
  std::vector<int32_t> in_positions;
};

/// Receives a plan while it is made.
class ChangesetSink {
 public:
  virtual ~ChangesetSink() = default;

  /// Called once, first, with the rows that the cache holds before the first
  /// batch, in the order in which batches need them.
  virtual absl::Status Initialize(absl::Span<const store::NodeId> ids) = 0;

  /// Called for every batch, in order.
  virtual absl::Status Update(int64_t batch, const Changeset& changeset) = 0;
};

/// The size of a cache and of the graph whose rows it holds.
struct CacheShape {
  /// Nodes are numbered below this.
  int64_t num_nodes = 0;
  /// Rows that the cache holds.
  int64_t capacity = 0;
};

/// The totals of a plan, in rows.
struct ChangesetTotals {
  /// Over all batches.
  int64_t needed = 0;
  /// Rows read to initialize the cache.
  int64_t filled = 0;
  /// Rows read for the batches. No cache of that size, starting empty, reads
  /// fewer than filled + missed.
  int64_t missed = 0;
};

/// Plans the provably optimal cache of `trace` (Ginex, section 3.4): before the
/// first batch it holds the rows that are needed first; after each batch it
/// keeps, out of its rows and the batch's rows, the ones needed again soonest
/// (Belady, with rows that bypass the cache). Among rows needed at the same
/// time, rows already inside come first, then smaller numbers; a row not needed
/// again never enters.
///
/// Three passes over the trace. Time: one visit of each access in each pass,
/// and log(rows) for each row that enters or leaves. Memory: see
/// ChangesetMemoryBytes. Runs on the caller's thread, while the next superbatch
/// is sampled by others (section 3.1).
///
/// Errors of the trace and the sink are returned; INVALID_ARGUMENT for nodes
/// out of range and too many batches; RESOURCE_EXHAUSTED without memory;
/// CANCELLED, between two batches, when `stop` is requested.
absl::StatusOr<ChangesetTotals> PlanChangesets(plan::AccessTrace& trace,
                                               const CacheShape& shape,
                                               ChangesetSink& sink,
                                               std::stop_token stop);

/// Memory that PlanChangesets takes at most: for each node 8 bytes and 1 bit,
/// for each access 4 bytes, for each row of the cache 24 bytes, for each row of
/// the largest batch 88 bytes, for each batch 32 bytes.
uint64_t ChangesetMemoryBytes(const CacheShape& shape, int64_t num_accesses,
                              int64_t largest_batch, int64_t num_batches);

/// The file of a plan (the runtime files init and update of Ginex, section
/// 3.1): written while the plan is made, read batch by batch. One record for
/// the initial rows and one for each batch, each with a CRC32C; the offsets of
/// the records are kept in memory, 8 bytes a batch. A scratch format: in the
/// machine's byte order, for this version of Hearth alone, not synced.

/// Writes the file. Single-owner.
class ChangesetFileWriter final : public ChangesetSink {
 public:
  /// `files` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<ChangesetFileWriter>> Create(
      io::FileSystem& files, std::string path);

  /// Removes the file if it was not finished.
  ~ChangesetFileWriter() override;

  /// Append a record. RESOURCE_EXHAUSTED if the disk is full.
  absl::Status Initialize(absl::Span<const store::NodeId> ids) override;
  absl::Status Update(int64_t batch, const Changeset& changeset) override;

  /// Ends the file. Returns the offsets where its records begin, and the end of
  /// the last one.
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
  /// `offsets`: as returned by Finish. DATA_LOSS if the file has another size.
  static absl::StatusOr<std::unique_ptr<ChangesetFileReader>> Open(
      io::FileSystem& files, const std::string& path,
      std::vector<uint64_t> offsets);

  /// The initial rows. A damaged record is read once more, then DATA_LOSS
  /// naming the file and the offset.
  absl::StatusOr<std::vector<store::NodeId>> ReadInitial() const;

  /// The changeset of batch `batch`. Errors as ReadInitial. REQUIRES: it was
  /// written.
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
