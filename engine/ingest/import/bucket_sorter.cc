#include "engine/ingest/import/bucket_sorter.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/catch_exceptions.h"
#include "engine/base/status_macros.h"
#include "engine/base/team.h"

// A counting sort of each bucket:
// 1. Count the edges into each node; their sums are the nodes' positions in the
//    output.
// 2. Visit the edges again: each goes to its node's next position, which in the
//    end is where the node's edges end: its element of indptr. Only edges that
//    fall into a window of the output are kept; the window is written.
// 3. If the bucket is larger than the window (one node may have more edges than
//    fit), move the window on and go back to 2.
// A bucket is sorted while those before it are still being sorted and written,
// unless it is larger than the window: then once they are. Whoever writes holds
// the turn, and all else that is one thread's at a time.

namespace hearth::ingest {
namespace {

constexpr int kSorters = 2;

uint64_t BytesOfEdges(int64_t count) {
  return static_cast<uint64_t>(count) * 2 * sizeof(int64_t);
}

/// Turns of threads, in the order of the buckets. Thread-safe.
class Turns {
 public:
  explicit Turns(size_t count) : count_(count) {}

  /// The next bucket to be sorted; the number of buckets behind the last one,
  /// and after a failure.
  size_t Next() {
    const absl::MutexLock lock(&mutex_);
    return failed_ ? count_ : std::min(next_++, count_);
  }

  /// Waits for a bucket's turn. False if one before it failed.
  bool Await(size_t number) {
    const absl::MutexLock lock(&mutex_);
    while (turn_ != number && !failed_) changed_.Wait(&mutex_);
    return !failed_;
  }

  /// Ends the turn.
  void End(bool failed) {
    const absl::MutexLock lock(&mutex_);
    ++turn_;
    failed_ = failed;
    changed_.SignalAll();
  }

 private:
  const size_t count_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

/// State that all sorters share.
struct Sorting {
  ImportContext& context;
  const EdgeBuckets& buckets;
  const SortBudget budget;
  CscWriter& writer;
  /// Position in the output where each bucket's edges begin.
  std::vector<int64_t> first_positions;
  Turns turns;

  /// Whether a bucket's edges fit as they are and sorted.
  bool Fits(const EdgeBuckets::Bucket& bucket) const {
    const auto held = static_cast<int64_t>(buckets.SpilledBytes(bucket));
    return bucket.num_edges + held / budget.index_bytes <=
           budget.WindowEdges(bucket.num_nodes);
  }

  /// Times that the context is advanced by the bytes of each edge.
  int64_t Passes(const EdgeBuckets::Bucket& bucket) const {
    if (Fits(bucket)) return 1;
    const int64_t window = budget.WindowEdges(bucket.num_nodes);
    return 1 + (bucket.num_edges + window - 1) / window;
  }
};

/// One thread's. `Id` is the type of indices, `End` that of packed ends.
template <typename Id, typename End>
class Sorter {
 public:
  explicit Sorter(Sorting& sorting)
      : sorting_(sorting), reader_(sorting.buckets) {}

  absl::Status Run() {
    const std::vector<EdgeBuckets::Bucket>& buckets =
        sorting_.buckets.buckets();
    for (size_t i; (i = sorting_.turns.Next()) < buckets.size();) {
      bucket_ = &buckets[i];
      first_position_ = sorting_.first_positions[i];
      const bool fits = sorting_.Fits(*bucket_);
      absl::Status status = CatchExceptions([&]() -> absl::Status {
        return fits ? SortAtOnce() : absl::OkStatus();
      });
      if (!sorting_.turns.Await(i)) break;
      if (status.ok()) {
        status = CatchExceptions(
            [&] { return fits ? WriteAtOnce() : SortByWindows(); });
      }
      sorting_.turns.End(!status.ok());
      HEARTH_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status SortAtOnce() {
    reader_.Begin(*bucket_, true);
    HEARTH_RETURN_IF_ERROR(Count([](size_t) { return absl::OkStatus(); }));
    return FillWindow(0, bucket_->num_edges,
                      [](size_t) { return absl::OkStatus(); });
  }

  absl::Status WriteAtOnce() {
    HEARTH_RETURN_IF_ERROR(WriteWindow());
    HEARTH_RETURN_IF_ERROR(sorting_.writer.AppendOffsets(positions_));
    return bucket_->num_edges == 0 ? absl::OkStatus()
                                   : Advance(bucket_->num_edges);
  }

  absl::Status SortByWindows() {
    const auto advance = [this](size_t num_edges) {
      return Advance(static_cast<int64_t>(num_edges));
    };
    reader_.Begin(*bucket_, false);
    HEARTH_RETURN_IF_ERROR(Count(advance));
    const int64_t window = sorting_.budget.WindowEdges(bucket_->num_nodes);
    for (int64_t begin = 0; begin < bucket_->num_edges; begin += window) {
      if (begin > 0) RewindPositions();
      HEARTH_RETURN_IF_ERROR(FillWindow(
          begin, std::min(window, bucket_->num_edges - begin), advance));
      HEARTH_RETURN_IF_ERROR(WriteWindow());
    }
    return sorting_.writer.AppendOffsets(positions_);
  }

  /// Makes positions_ where each node's edges begin. Calls `done` with the
  /// numbers of edges that are.
  template <typename Done>
  absl::Status Count(const Done& done) {
    positions_.assign(static_cast<size_t>(bucket_->num_nodes), 0);
    HEARTH_RETURN_IF_ERROR(ForEachPiece(
        [this](const PackedEdge<End>& edge) {
          ++positions_[static_cast<size_t>(edge.destination -
                                           bucket_->first_node)];
        },
        done));
    int64_t sum = first_position_;
    for (int64_t& position : positions_) {
      const int64_t degree = position;
      position = sum;
      sum += degree;
    }
    return absl::OkStatus();
  }

  /// Puts `count` edges of the bucket's, `begin` of which come before, into the
  /// window, and positions_ to where each node's edges end.
  template <typename Done>
  absl::Status FillWindow(int64_t begin, int64_t count, const Done& done) {
    window_.resize(static_cast<size_t>(count));
    const int64_t first = first_position_ + begin;
    return ForEachPiece(
        [this, first](const PackedEdge<End>& edge) {
          int64_t& position = positions_[static_cast<size_t>(
              edge.destination - bucket_->first_node)];
          const auto slot = static_cast<uint64_t>(position++ - first);
          if (slot < window_.size())
            window_[slot] = static_cast<Id>(edge.source);
        },
        done);
  }

  template <typename Visit, typename Done>
  absl::Status ForEachPiece(const Visit& visit, const Done& done) {
    return reader_.ForEachPiece([&](absl::Span<const std::byte> piece) {
      const size_t count = piece.size() / sizeof(PackedEdge<End>);
      for (size_t i = 0; i < count; ++i) {
        PackedEdge<End> edge;
        std::memcpy(&edge, piece.data() + i * sizeof(edge), sizeof(edge));
        visit(edge);
      }
      return done(count);
    });
  }

  absl::Status WriteWindow() {
    return sorting_.writer.AppendNeighbors(absl::Span<const Id>(window_));
  }

  absl::Status Advance(int64_t num_edges) {
    return sorting_.context.Advance(BytesOfEdges(num_edges));
  }

  /// After a pass each node's position is where the next node's edges begin.
  void RewindPositions() {
    std::copy_backward(positions_.begin(), positions_.end() - 1,
                       positions_.end());
    positions_[0] = first_position_;
  }

  Sorting& sorting_;
  EdgeBuckets::Reader reader_;
  const EdgeBuckets::Bucket* bucket_ = nullptr;
  int64_t first_position_ = 0;
  std::vector<int64_t> positions_;
  std::vector<Id> window_;
};

template <typename Id, typename End>
absl::Status SortAs(Sorting& sorting) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Team> team,
                          Team::Create(kSorters));
  return team->RunMembers([&](int) { return Sorter<Id, End>(sorting).Run(); });
}

}  // namespace

int64_t SortBudget::PositionBytes(int64_t num_nodes) {
  return num_nodes * static_cast<int64_t>(sizeof(int64_t));
}

int64_t SortBudget::WindowEdges(int64_t num_nodes) const {
  return std::max<int64_t>(0, bytes - PositionBytes(num_nodes)) / index_bytes;
}

absl::Status SortBudget::Check(int64_t num_nodes, int64_t num_edges) const {
  const int64_t window = std::min<int64_t>(num_edges, 1);
  const int64_t needed = PositionBytes(num_nodes) + window * index_bytes;
  if (needed <= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("sorting the edges of ", num_nodes, " nodes needs ",
                   FormatByteSize(static_cast<uint64_t>(needed)),
                   ", the import's memory limit leaves ",
                   FormatByteSize(static_cast<uint64_t>(bytes))));
}

absl::Status SortBuckets(ImportContext& context, const EdgeBuckets& buckets,
                         const SortBudget& budget, CscWriter& writer) {
  Sorting sorting = {.context = context,
                     .buckets = buckets,
                     .budget = budget,
                     .writer = writer,
                     .first_positions = {},
                     .turns = Turns(buckets.buckets().size())};
  int64_t num_edges = 0;
  uint64_t total = 0;
  for (const EdgeBuckets::Bucket& bucket : buckets.buckets()) {
    HEARTH_RETURN_IF_ERROR(budget.Check(bucket.num_nodes, bucket.num_edges));
    sorting.first_positions.push_back(num_edges);
    num_edges += bucket.num_edges;
    total += BytesOfEdges(bucket.num_edges) *
             static_cast<uint64_t>(sorting.Passes(bucket));
  }
  context.Begin("edges", total);
  // The first node's edges begin here; where they end, the next node's do.
  const int64_t first = 0;
  HEARTH_RETURN_IF_ERROR(writer.AppendOffsets(absl::MakeConstSpan(&first, 1)));
  if (budget.index_bytes == sizeof(int64_t)) {
    return SortAs<int64_t, int64_t>(sorting);
  }
  return buckets.edge_bytes() == sizeof(PackedEdge<int32_t>)
             ? SortAs<int32_t, int32_t>(sorting)
             : SortAs<int32_t, int64_t>(sorting);
}

}  // namespace hearth::ingest
