#include "engine/strategy/superbatch/changeset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/superbatch/access_table.h"

// The paper takes the smallest of all candidates anew for each batch, which
// suits a GPU. Here the rows inside are kept in one bucket for each batch in
// which they are needed next, so that a batch costs no more than its own rows:
//
//  1. The rows of bucket i are those that batch i finds inside. All of them
//     move to the buckets of their next batch.
//  2. The rows that it does not find, and that are needed again, change places
//     one by one, soonest first, with the row inside that is needed last, as
//     long as they are needed before it. A row that has just entered is needed
//     no later than those after it, so it never leaves again.
//
// Before step 2 the cache is full, or holds every row of the trace: it starts
// with the rows needed first, and whatever enters takes another's place.

namespace hearth::strategy {
namespace {

using store::NodeId;

/// The rows that are inside, and when each is needed next.
class ResidentRows {
 public:
  ResidentRows(int64_t num_nodes, int64_t num_batches)
      : resident_(static_cast<size_t>(num_nodes)),
        buckets_(static_cast<size_t>(num_batches) + 1) {}

  bool Contains(NodeId node) const { return resident_[node]; }

  void Add(NodeId node, uint32_t next) {
    resident_[node] = true;
    Place(node, next);
  }

  /// Moves a row inside, whose bucket was emptied, to that of `next`.
  void Place(NodeId node, uint32_t next) {
    const size_t at = std::min<size_t>(next, buckets_.size() - 1);
    Bucket& bucket = buckets_[at];
    bucket.nodes.push_back(node);
    if (bucket.is_heap) {
      std::push_heap(bucket.nodes.begin(), bucket.nodes.end());
    }
    last_ = std::max(last_, at);
  }

  /// Forgets when the rows needed in `batch` are needed.
  void Empty(uint32_t batch) { buckets_[batch] = {}; }

  /// Whether a row needed in `next` is needed before one of those inside.
  bool ShouldEnter(uint32_t next) {
    while (last_ > 0 && buckets_[last_].nodes.empty()) --last_;
    return !buckets_[last_].nodes.empty() && next < last_;
  }

  /// Takes out the row needed last: of several, the one of largest number.
  /// REQUIRES: ShouldEnter gave true.
  NodeId RemoveLast() {
    Bucket& bucket = buckets_[last_];
    std::vector<NodeId>& nodes = bucket.nodes;
    if (!bucket.is_heap) {
      std::make_heap(nodes.begin(), nodes.end());
      bucket.is_heap = true;
    }
    std::pop_heap(nodes.begin(), nodes.end());
    const NodeId node = nodes.back();
    nodes.pop_back();
    if (nodes.empty()) bucket = {};
    resident_[node] = false;
    return node;
  }

 private:
  struct Bucket {
    std::vector<NodeId> nodes;
    // A heap, the largest on top, from the first removal on.
    bool is_heap = false;
  };

  std::vector<bool> resident_;
  // By the batch in which they are needed; the last one is "never".
  std::vector<Bucket> buckets_;
  // Buckets behind it are empty.
  size_t last_ = 0;
};

class Planner {
 public:
  Planner(plan::AccessTrace& trace, const CacheShape& shape, AccessTable table,
          std::stop_token stop)
      : trace_(trace),
        shape_(shape),
        stop_(std::move(stop)),
        table_(std::move(table)),
        rows_(shape.num_nodes, trace.num_batches()) {}

  absl::StatusOr<ChangesetTotals> Plan(ChangesetSink& sink) {
    HEARTH_RETURN_IF_ERROR(ForEachBatch(
        [&](int64_t batch, Nodes nodes) { return table_.Count(nodes); }));
    HEARTH_RETURN_IF_ERROR(table_.BeginPlacing());
    initial_.reserve(
        static_cast<size_t>(std::min(shape_.capacity, table_.num_accesses())));
    HEARTH_RETURN_IF_ERROR(ForEachBatch([&](int64_t batch, Nodes nodes) {
      table_.Place(static_cast<uint32_t>(batch), nodes);
      Fill(static_cast<uint32_t>(batch), nodes);
      return absl::OkStatus();
    }));
    table_.EndPlacing();
    totals_.needed = table_.num_accesses();
    totals_.filled = static_cast<int64_t>(initial_.size());
    HEARTH_RETURN_IF_ERROR(sink.Initialize(initial_));
    initial_ = {};
    HEARTH_RETURN_IF_ERROR(ForEachBatch([&](int64_t batch, Nodes nodes) {
      Simulate(static_cast<uint32_t>(batch), nodes);
      return sink.Update(batch, changeset_);
    }));
    return totals_;
  }

 private:
  using Nodes = absl::Span<const NodeId>;

  // A row of the batch that is not inside and is needed again.
  struct Candidate {
    uint32_t next;
    int32_t position;
    NodeId node;
    // The first to enter is on top of a heap.
    bool operator<(const Candidate& other) const {
      return next != other.next ? next > other.next : node > other.node;
    }
  };

  template <typename Visit>
  absl::Status ForEachBatch(Visit visit) {
    for (int64_t batch = 0; batch < trace_.num_batches(); ++batch) {
      if (stop_.stop_requested()) {
        return absl::CancelledError("planning the cache: stopped on request");
      }
      HEARTH_ASSIGN_OR_RETURN(const Nodes nodes, trace_.Load(batch));
      HEARTH_RETURN_IF_ERROR(visit(batch, nodes));
    }
    return absl::OkStatus();
  }

  // Extends the initial rows by those that `batch` is the first to need. Until
  // the cache is full, the rows inside are all that were needed so far.
  void Fill(uint32_t batch, Nodes nodes) {
    auto room = static_cast<size_t>(shape_.capacity) - initial_.size();
    if (room == 0) return;
    const size_t before = initial_.size();
    for (const NodeId node : nodes) {
      if (!rows_.Contains(node)) initial_.push_back(node);
    }
    const auto fresh = initial_.begin() + static_cast<ptrdiff_t>(before);
    if (initial_.size() - before > room) {
      const auto end = fresh + static_cast<ptrdiff_t>(room);
      std::nth_element(fresh, end, initial_.end());
      initial_.erase(end, initial_.end());
    }
    for (auto node = fresh; node != initial_.end(); ++node) {
      rows_.Add(*node, batch);
    }
  }

  // Sets changeset_ to what `batch` does to the cache.
  void Simulate(uint32_t batch, Nodes nodes) {
    next_.resize(nodes.size());
    table_.Advance(nodes, absl::MakeSpan(next_));
    rows_.Empty(batch);
    candidates_.clear();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (rows_.Contains(nodes[i])) {
        rows_.Place(nodes[i], next_[i]);
        continue;
      }
      ++totals_.missed;
      if (next_[i] == AccessTable::kNever) continue;
      candidates_.push_back({.next = next_[i],
                             .position = static_cast<int32_t>(i),
                             .node = nodes[i]});
    }
    Exchange();
  }

  // Step 2.
  void Exchange() {
    changeset_.in_ids.clear();
    changeset_.out_ids.clear();
    changeset_.in_positions.clear();
    std::make_heap(candidates_.begin(), candidates_.end());
    while (!candidates_.empty() &&
           rows_.ShouldEnter(candidates_.front().next)) {
      const Candidate entering = candidates_.front();
      std::pop_heap(candidates_.begin(), candidates_.end());
      candidates_.pop_back();
      changeset_.out_ids.push_back(rows_.RemoveLast());
      changeset_.in_ids.push_back(entering.node);
      changeset_.in_positions.push_back(entering.position);
      rows_.Add(entering.node, entering.next);
    }
  }

  plan::AccessTrace& trace_;
  const CacheShape shape_;
  const std::stop_token stop_;
  AccessTable table_;
  ResidentRows rows_;
  std::vector<NodeId> initial_;
  std::vector<uint32_t> next_;
  std::vector<Candidate> candidates_;
  Changeset changeset_;
  ChangesetTotals totals_;
};

}  // namespace

absl::StatusOr<ChangesetTotals> PlanChangesets(plan::AccessTrace& trace,
                                               const CacheShape& shape,
                                               ChangesetSink& sink,
                                               std::stop_token stop) {
  if (shape.num_nodes < 0 || shape.capacity < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a cache of ", shape.capacity, " of ", shape.num_nodes,
                     " rows cannot be planned"));
  }
  if (trace.num_batches() >= AccessTable::kMaxBatches) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an access trace of ", trace.num_batches(),
        " batches is too long: the limit is ", AccessTable::kMaxBatches - 1));
  }
  HEARTH_ASSIGN_OR_RETURN(AccessTable table,
                          AccessTable::Make(shape.num_nodes));
  Planner planner(trace, shape, std::move(table), std::move(stop));
  return planner.Plan(sink);
}

uint64_t ChangesetMemoryBytes(const CacheShape& shape, int64_t num_accesses,
                              int64_t largest_batch, int64_t num_batches) {
  const auto nodes = static_cast<uint64_t>(shape.num_nodes);
  // A row of a cache that is not full was counted as an access.
  const auto rows =
      static_cast<uint64_t>(std::min(shape.capacity, num_accesses));
  return AccessTable::MemoryBytes(shape.num_nodes, num_accesses) + nodes / 8 +
         1 + 24 * rows + 88 * static_cast<uint64_t>(largest_batch) +
         32 * (static_cast<uint64_t>(num_batches) + 1);
}

}  // namespace hearth::strategy
