#include "engine/ingest/import/csc_builder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/pipeline/pipeline.h"

namespace hearth::ingest {

namespace {

constexpr int kQueueCapacity = 2;
// Bytes per edge of a block: ids in the queue, in the block being read and in
// the block being visited, 16 each; 32 for the raw bytes of a read and for
// pairs.
constexpr uint64_t kBlockBytesPerEdge = (kQueueCapacity + 2) * 16 + 32;
constexpr uint64_t kMaxBlockEdges = 256 << 10;
constexpr uint64_t kMinBlockEdges = 256;

/// Blocks whose memory is reused. Thread-safe.
class BlockPool {
 public:
  EdgeBlock Take() {
    const absl::MutexLock lock(&mutex_);
    if (free_.empty()) return {};
    EdgeBlock block = std::move(free_.back());
    free_.pop_back();
    return block;
  }

  void Give(EdgeBlock block) {
    const absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(block));
  }

 private:
  absl::Mutex mutex_;
  std::vector<EdgeBlock> free_ ABSL_GUARDED_BY(mutex_);
};

struct BlockItem final : pipeline::Item {
  explicit BlockItem(int64_t number) : number(number) {}

  const int64_t number;
  EdgeBlock block;
};

/// Calls `visit` with all edges of `edges`, block by block, and advances the
/// context by 16 bytes an edge. Another thread reads and checks ahead; all
/// blocks together take at most an eighth of the memory limit.
absl::Status ForEachEdgeBlockAhead(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit) {
  const auto block_edges = static_cast<int64_t>(
      std::clamp(context.memory_limit_bytes() / 8 / kBlockBytesPerEdge,
                 kMinBlockEdges, kMaxBlockEdges));
  const int64_t num_edges = edges.num_edges();
  BlockPool pool;
  const auto read = [&](int, pipeline::Item& item) {
    auto& [number, block] = static_cast<BlockItem&>(item);
    block = pool.Take();
    const int64_t first = number * block_edges;
    return edges.Read(first, std::min(block_edges, num_edges - first), block);
  };
  const auto visit_and_advance = [&](std::unique_ptr<pipeline::Item> item) {
    EdgeBlock& block = static_cast<BlockItem&>(*item).block;
    HEARTH_RETURN_IF_ERROR(visit(block));
    const uint64_t bytes = block.size() * 2 * sizeof(int64_t);
    pool.Give(std::move(block));
    return context.Advance(bytes);
  };
  std::vector<pipeline::Stage> stages;
  stages.push_back(
      {.name = "read", .queue_capacity = kQueueCapacity, .work = read});
  return pipeline::NewPipeline(std::move(stages), "visit", Clock::Real())
      ->Run((num_edges + block_edges - 1) / block_edges,
            [](int64_t number) { return std::make_unique<BlockItem>(number); },
            visit_and_advance, {});
}

// Larger pieces are written no faster, and exceed the processor's caches.
constexpr uint64_t kMaxPieceBytes = 1 << 20;
constexpr int kFactorBits = 63;

}  // namespace

EdgeBuckets::EdgeBuckets(io::FileSystem& files, std::string scratch_path,
                         const EdgeEnds& ends, int64_t num_edges,
                         int64_t num_buckets, uint64_t memory_bytes)
    : files_(files),
      scratch_path_(std::move(scratch_path)),
      edge_bytes_(ScratchEdgeBytes(ends)),
      all_bytes_(static_cast<uint64_t>(num_edges * edge_bytes_)),
      fits_memory_(all_bytes_ <= memory_bytes),
      buckets_(static_cast<size_t>(num_buckets)),
      free_bytes_(static_cast<size_t>(num_buckets)) {
  const int64_t num_nodes = ends.num_destinations;
  const auto one = static_cast<unsigned __int128>(1) << kFactorBits;
  factor_ = static_cast<uint64_t>(one * buckets_.size() /
                                  static_cast<uint64_t>(num_nodes));
  piece_bytes_ = std::min(memory_bytes / buckets_.size(), kMaxPieceBytes);
  piece_bytes_ -= piece_bytes_ % static_cast<uint64_t>(edge_bytes_);
  // A bucket begins with the first node that maps to its number.
  const auto first_node = [&](size_t number) {
    const auto node = (one * number + (factor_ - 1)) / factor_;
    return node < static_cast<uint64_t>(num_nodes) ? static_cast<int64_t>(node)
                                                   : num_nodes;
  };
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].first_node = first_node(i);
    const int64_t end = i + 1 < buckets_.size() ? first_node(i + 1) : num_nodes;
    buckets_[i].num_nodes = end - buckets_[i].first_node;
  }
}

absl::Status EdgeBuckets::Add(const EdgeBlock& block) {
  return edge_bytes_ == sizeof(PackedEdge<int32_t>) ? AddAs<int32_t>(block)
                                                    : AddAs<int64_t>(block);
}

template <typename End>
absl::Status EdgeBuckets::AddAs(const EdgeBlock& block) {
  // Local copies: the compiler must assume that the byte stores below change
  // any member.
  const uint64_t factor = factor_;
  const absl::Span<FreeBytes> all_free = absl::MakeSpan(free_bytes_);
  const absl::Span<const int64_t> sources = block.sources;
  const absl::Span<const int64_t> destinations = block.destinations;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto number = static_cast<size_t>(
        static_cast<unsigned __int128>(destinations[i]) * factor >>
        kFactorBits);
    FreeBytes& free = all_free[number];
    if (free.begin == free.end) HEARTH_RETURN_IF_ERROR(StartBlock(number));
    const PackedEdge<End> edge = {static_cast<End>(sources[i]),
                                  static_cast<End>(destinations[i])};
    std::memcpy(free.begin, &edge, sizeof(edge));
    free.begin += sizeof(edge);
  }
  return absl::OkStatus();
}

absl::Status EdgeBuckets::StartBlock(size_t number) {
  Bucket& bucket = buckets_[number];
  if (bucket.kept.empty() || fits_memory_) {
    bucket.kept.push_back(
        std::make_unique_for_overwrite<std::byte[]>(piece_bytes_));
  } else {
    HEARTH_RETURN_IF_ERROR(Spill(bucket));
  }
  std::byte* const begin = bucket.kept.back().get();
  free_bytes_[number] = {begin, begin + piece_bytes_};
  // num_edges counts a new block as full; Finish subtracts what stayed free.
  bucket.num_edges += static_cast<int64_t>(piece_bytes_) / edge_bytes_;
  return absl::OkStatus();
}

absl::Status EdgeBuckets::Spill(Bucket& bucket) {
  if (output_ == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(output_, files_.Create(scratch_path_));
    HEARTH_RETURN_IF_ERROR(output_->Allocate(all_bytes_));
  }
  const absl::Span<const std::byte> piece(bucket.kept.back().get(),
                                          piece_bytes_);
  HEARTH_RETURN_IF_ERROR(output_->Append(piece));
  bucket.spilled.push_back({static_cast<int64_t>(scratch_bytes_) / edge_bytes_,
                            static_cast<int64_t>(piece_bytes_) / edge_bytes_,
                            Crc32c(piece)});
  scratch_bytes_ += piece_bytes_;
  return absl::OkStatus();
}

absl::Status EdgeBuckets::Finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].num_edges -=
        (free_bytes_[i].end - free_bytes_[i].begin) / edge_bytes_;
  }
  if (output_ == nullptr) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(output_->Close());
  HEARTH_ASSIGN_OR_RETURN(input_, files_.OpenForRead(scratch_path_));
  return absl::OkStatus();
}

uint64_t EdgeBuckets::SpilledBytes(const Bucket& bucket) const {
  return bucket.spilled.size() * piece_bytes_;
}

absl::Status EdgeBuckets::ReadSpilled(const ScratchExtent& extent,
                                      absl::Span<std::byte> out) const {
  HEARTH_RETURN_IF_ERROR(input_->Read(
      static_cast<uint64_t>(extent.first_edge * edge_bytes_), out));
  if (Crc32c(out) == extent.crc32c) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(scratch_path_, ": edges ", extent.first_edge, " .. ",
                   extent.first_edge + extent.num_edges - 1,
                   " are damaged (their checksum does not match)"));
}

void EdgeBuckets::Reader::Begin(const Bucket& bucket, bool hold) {
  bucket_ = &bucket;
  hold_ = hold;
  is_held_ = false;
  const uint64_t bytes =
      hold ? buckets_.SpilledBytes(bucket) : buckets_.piece_bytes_;
  memory_.resize(std::max<uint64_t>(memory_.size(), bytes));
}

absl::Status EdgeBuckets::Reader::ForEachPiece(
    absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> visit) {
  const uint64_t piece_bytes = buckets_.piece_bytes_;
  for (size_t i = 0; i < bucket_->spilled.size(); ++i) {
    const absl::Span<std::byte> piece = absl::MakeSpan(memory_).subspan(
        hold_ ? i * piece_bytes : 0, piece_bytes);
    if (!is_held_) {
      HEARTH_RETURN_IF_ERROR(buckets_.ReadSpilled(bucket_->spilled[i], piece));
    }
    HEARTH_RETURN_IF_ERROR(visit(piece));
  }
  is_held_ = hold_;
  auto left = static_cast<uint64_t>(bucket_->num_edges * buckets_.edge_bytes_) -
              buckets_.SpilledBytes(*bucket_);
  for (const std::unique_ptr<std::byte[]>& block : bucket_->kept) {
    const uint64_t bytes = std::min(left, piece_bytes);
    HEARTH_RETURN_IF_ERROR(visit({block.get(), bytes}));
    left -= bytes;
  }
  return absl::OkStatus();
}

// A counting sort of each bucket:
// 1. Count the edges into each node; the prefix sums are the positions of the
//    nodes' edges in the output.
// 2. Visit the edges again: each edge goes to the next position of its node. At
//    the end, a node's position is the end of its edges: its element of indptr.
//    Only edges that fall into a window of the output are kept; the window is
//    written.
// 3. If the bucket is larger than the window (one node may have more edges than
//    fit), move the window on and repeat step 2.
// A bucket that fits the window is sorted while the buckets before it are still
// being sorted and written; a larger bucket waits for them. The thread whose
// bucket is next has the turn, and with it exclusive use of the writer and the
// context.

namespace {

constexpr int kSorters = 2;

uint64_t BytesOfEdges(int64_t count) {
  return static_cast<uint64_t>(count) * 2 * sizeof(int64_t);
}

/// Order in which threads write their buckets. Thread-safe.
class Turns {
 public:
  explicit Turns(size_t count) : count_(count) {}

  /// Number of the next bucket to sort; the number of buckets if none is left,
  /// or after a failure.
  size_t Next() {
    const absl::MutexLock lock(&mutex_);
    return failed_ ? count_ : std::min(next_++, count_);
  }

  /// Waits for the turn of bucket `number`. False if an earlier bucket failed.
  bool Await(size_t number) {
    const absl::MutexLock lock(&mutex_);
    while (turn_ != number && !failed_) changed_.Wait(&mutex_);
    return !failed_;
  }

  /// Passes the turn on to the next bucket.
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

/// State shared by all sorters.
struct Sorting {
  ImportContext& context;
  const EdgeBuckets& buckets;
  const SortBudget budget;
  CscWriter& writer;
  /// Position in the output of each bucket's first edge.
  std::vector<int64_t> first_positions;
  Turns turns;

  /// Whether the bucket's edges fit the budget both as they are and sorted.
  bool Fits(const EdgeBuckets::Bucket& bucket) const {
    const auto held = static_cast<int64_t>(buckets.SpilledBytes(bucket));
    return bucket.num_edges + held / budget.index_bytes <=
           budget.WindowEdges(bucket.num_nodes);
  }

  /// How often the context is advanced by the bytes of each edge.
  int64_t Passes(const EdgeBuckets::Bucket& bucket) const {
    if (Fits(bucket)) return 1;
    const int64_t window = budget.WindowEdges(bucket.num_nodes);
    return 1 + (bucket.num_edges + window - 1) / window;
  }
};

/// Sorter of one thread. `Id` is the type of indices, `End` the type of
/// PackedEdge.
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

  /// Sets positions_ to the begin of each node's edges. Calls `done` with the
  /// number of edges of each piece.
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

  /// Fills the window with the `count` edges of the bucket that come after its
  /// first `begin` edges, and sets positions_ to the end of each node's edges.
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

  /// Undoes a pass: after it the position of a node is the begin of the next
  /// node's edges.
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
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> team,
                          ThreadTeam::Create(kSorters));
  return team->RunWorkers([&](int) { return Sorter<Id, End>(sorting).Run(); });
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
  // The first node's edges begin at 0; its end is the begin of the next node's
  // edges.
  const int64_t first = 0;
  HEARTH_RETURN_IF_ERROR(writer.AppendOffsets(absl::MakeConstSpan(&first, 1)));
  if (budget.index_bytes == sizeof(int64_t)) {
    return SortAs<int64_t, int64_t>(sorting);
  }
  return buckets.edge_bytes() == sizeof(PackedEdge<int32_t>)
             ? SortAs<int32_t, int32_t>(sorting)
             : SortAs<int32_t, int64_t>(sorting);
}

// 1. Read all edges once, checking every id, and distribute them to buckets of
//    consecutive destinations, with about as many nodes in each. Edges that do
//    not fit memory go to a scratch file, in pieces of one bucket.
// 2. Sort bucket by bucket, checking the checksums of the pieces; remove the
//    scratch file.
// There are many buckets, so that few exceed the window of a sort, and most fit
// the processor's caches. Shares of the memory limit: an eighth for blocks of
// edges, a quarter for the buckets, a quarter for each of the two sorts.

namespace {

constexpr uint64_t kMaxBuckets = 1024;
// Usual and least size of a piece in the scratch file; disks read the usual
// size at full speed.
constexpr uint64_t kPieceBytes = 128 << 10;
constexpr uint64_t kMinPieceBytes = 4 << 10;

/// Number of buckets for the edges within `memory_bytes`. RESOURCE_EXHAUSTED if
/// even the most buckets that fit are too large to be sorted.
absl::StatusOr<int64_t> NumBuckets(const EdgeEnds& ends, int64_t num_edges,
                                   const SortBudget& budget,
                                   uint64_t memory_bytes) {
  const auto num_nodes = static_cast<uint64_t>(ends.num_destinations);
  const uint64_t wanted = std::min(memory_bytes / kPieceBytes, kMaxBuckets);
  // Half of a sort's budget is for positions, half for edges, assuming that
  // they are spread evenly.
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
  HEARTH_RETURN_IF_ERROR(ForEachEdgeBlockAhead(
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
