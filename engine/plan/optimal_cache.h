#ifndef HEARTH_ENGINE_PLAN_OPTIMAL_CACHE_H_
#define HEARTH_ENGINE_PLAN_OPTIMAL_CACHE_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"

/// The optimal cache of rows for a known sequence of batches, planned piece by
/// piece: which row is in which slot when, so that running the plan needs
/// neither look-ups nor locks.

namespace hearth::plan {

/// State of a cache's slots between two plans. A value: equal states have equal
/// plans.
struct CacheSlots {
  /// No row.
  static constexpr uint32_t kFree = UINT32_MAX;

  /// [slots], the node whose row is in each slot; kFree if there is none.
  std::vector<uint32_t> nodes;
  /// [slots], by how many batches the next batch comes behind the last one that
  /// read the slot (1: directly behind it), at most the reuse distance: from
  /// there on the slot can be overwritten. Rows that no batch has read do not
  /// keep their slots.
  std::vector<uint16_t> idle;

  friend bool operator==(const CacheSlots&, const CacheSlots&) = default;
};

/// Plans a cache that keeps, after each batch, out of its rows and the batch's
/// rows, the ones needed again soonest (Belady, with rows that bypass the
/// cache). A batch finds its rows in the cache or reads them; once it is
/// assembled, some of the rows read enter the cache.
///
/// The future is known as far as the trace goes: batches behind the planned
/// ones are look-ahead. A decision is Belady's under any future if the next use
/// of every row that stays is known. Where it is not, each row of unknown next
/// use that is dropped while another such row stays may cost one read, since a
/// cache that lacks one row can imitate the other. So a sequence of plans, each
/// of which begins with the slots that the one before left behind, reads at
/// most as many rows as any cache of Capacity() rows that starts alike and
/// knows the whole future, plus Totals::uncertified.
///
/// Among rows needed at the same time, rows inside stay, then smaller numbers
/// enter. Plans depend on the arguments of Plan alone.
class OptimalCache {
 public:
  struct Options {
    /// Nodes are numbered below this. Below 2^32 - 1.
    int64_t num_nodes = 0;
    /// Slots, of one row each.
    int64_t num_slots = 0;
    /// A batch's entering rows overwrite only slots whose last reader came at
    /// least this many batches before. 0: the batch may be the last reader
    /// itself. At most UINT16_MAX.
    int64_t reuse_distance = 0;
    /// File for next uses while Plan runs: 4 bytes an access of a planned
    /// batch, and 4 a planned batch. Replaced if it exists; removed afterwards.
    std::string scratch_path;
  };

  /// A row that is in the cache before the first batch.
  struct Filled {
    uint32_t node;
    uint32_t slot;
    friend bool operator==(const Filled&, const Filled&) = default;
  };

  /// A row that enters the cache once its batch is assembled.
  struct Entry {
    /// Index in BatchPlan::reads.
    uint32_t read;
    uint32_t slot;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  /// What a plan says of one batch.
  struct BatchPlan {
    /// [nodes of the batch], in the trace's order: where each row is, a slot,
    /// or num_slots + j for reads[j].
    absl::Span<const uint32_t> addresses;
    /// Nodes whose rows the batch reads, ascending.
    absl::Span<const uint32_t> reads;
    /// Ascending by `read`; of distinct slots. With a positive reuse distance
    /// they are none of the batch's own.
    absl::Span<const Entry> entries;
    /// Slots whose rows leave the cache then, before rows enter: what a slot
    /// holds stays readable until another row enters it.
    absl::Span<const uint32_t> drops;
  };

  /// Receives a plan while it is made. Spans are valid during the call.
  class Sink {
   public:
    virtual ~Sink() = default;

    /// Rows that fill free slots before the first batch; nodes ascend, also
    /// from one call to the next. Called before Batch, and only if there are
    /// any, as often as it takes: a call has at most kFillRows.
    virtual absl::Status Fill(absl::Span<const Filled> rows) = 0;

    /// Called for every planned batch, in order.
    virtual absl::Status Batch(int64_t batch, const BatchPlan& plan) = 0;
  };

  /// Rows of a call of Sink::Fill, at most.
  static constexpr int64_t kFillRows = 64 << 10;

  /// Over the planned batches, in rows.
  struct Totals {
    int64_t accesses = 0;
    /// Accesses that read.
    int64_t misses = 0;
    /// Rows read to fill the cache.
    int64_t filled = 0;
    int64_t entered = 0;
    /// Reads, also of batches behind the planned ones, that an optimal cache
    /// might have saved, at most: see above. Rows that bypassed the cache
    /// because of the reuse distance count, too.
    int64_t uncertified = 0;

    friend bool operator==(const Totals&, const Totals&) = default;
  };

  /// Rows that the cache holds at most: with a reuse distance and fewer slots
  /// than nodes, 15/16 of the slots, rounded down, but at least one if there is
  /// a slot; else all, as then no row has to leave.
  static int64_t Capacity(const Options& options);

  /// Slots without rows.
  static CacheSlots FreeSlots(const Options& options);

  /// Plans batches [0, end) of `trace`. `complete`: nothing follows the trace.
  /// `fill`: first fills what capacity is free with the rows that the trace
  /// needs first (among equals, smaller numbers), which costs no more than
  /// reading them when they are needed. `slots`: the state before the first
  /// batch, and on return that after the last planned one; unspecified on
  /// errors.
  ///
  /// Loads each batch of the trace once, last first, and then the planned ones
  /// again, in order. Time: a few random accesses to memory for each access of
  /// the trace, and log(rows) for each row read. Memory: MemoryBytes. Runs on
  /// the caller's thread.
  ///
  /// INVALID_ARGUMENT, with the number, for a node that is not below num_nodes
  /// or twice in its batch, and for options, slots or a trace out of range;
  /// RESOURCE_EXHAUSTED without memory; DATA_LOSS, with file and offset, for a
  /// damaged scratch file; CANCELLED, between two batches, when `stop` is
  /// requested; errors of the trace, the sink and the file system.
  static absl::StatusOr<Totals> Plan(io::FileSystem& files, AccessTrace& trace,
                                     int64_t end, bool complete, bool fill,
                                     const Options& options, CacheSlots& slots,
                                     Sink& sink, std::stop_token stop);

  /// Memory that Plan takes at most, beside what trace and sink take, and with
  /// the 6 bytes a slot of `slots`: for each node 4 bytes, for each slot 15,
  /// for each batch 12, for each row of the largest batch 60, and 4 MiB.
  static uint64_t MemoryBytes(int64_t num_nodes, int64_t num_slots,
                              int64_t largest_batch, int64_t num_batches);
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_OPTIMAL_CACHE_H_
