#include "engine/strategy/superbatch/changeset.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

// Every access goes to a random place in arrays that are far larger than the
// processor's caches, so each loop prefetches what a later iteration will
// touch.

namespace hearth::strategy {

namespace {

using store::NodeId;

constexpr size_t kAhead = 16;

template <typename T>
absl::Span<T> As(io::AlignedMemory& memory, size_t count) {
  return {reinterpret_cast<T*>(memory.bytes().data()), count};
}

}  // namespace

AccessTable::AccessTable(io::AlignedMemory ptr_memory, int64_t num_nodes)
    : ptr_memory_(std::move(ptr_memory)),
      ptr_(As<int64_t>(ptr_memory_, static_cast<size_t>(num_nodes))) {}

absl::StatusOr<AccessTable> AccessTable::Make(int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(static_cast<uint64_t>(num_nodes) *
                                  sizeof(int64_t)));
  return AccessTable(std::move(memory), num_nodes);
}

uint64_t AccessTable::MemoryBytes(int64_t num_nodes, int64_t num_accesses) {
  return static_cast<uint64_t>(num_nodes) * sizeof(int64_t) +
         (static_cast<uint64_t>(num_accesses) + 1) * sizeof(uint32_t);
}

absl::Status AccessTable::Count(absl::Span<const NodeId> nodes) {
  const auto num_nodes = static_cast<NodeId>(ptr_.size());
  for (const NodeId node : nodes) {
    if (node < 0 || node >= num_nodes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "node ", node, " of an access trace is not one of ", num_nodes));
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) {
      __builtin_prefetch(&ptr_[nodes[i + kAhead]], /*rw=*/1);
    }
    ++ptr_[nodes[i]];
  }
  num_accesses_ += static_cast<int64_t>(nodes.size());
  return absl::OkStatus();
}

absl::Status AccessTable::BeginPlacing() {
  const auto entries = static_cast<size_t>(num_accesses_) + 1;
  HEARTH_ASSIGN_OR_RETURN(
      iters_memory_, io::AlignedMemory::Allocate(entries * sizeof(uint32_t)));
  iters_ = As<uint32_t>(iters_memory_, entries);
  int64_t begin = 0;
  for (int64_t& entry : ptr_) begin += std::exchange(entry, begin);
  return absl::OkStatus();
}

void AccessTable::Place(uint32_t batch, absl::Span<const NodeId> nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + 2 * kAhead < nodes.size()) {
      __builtin_prefetch(&ptr_[nodes[i + 2 * kAhead]], /*rw=*/1);
    }
    if (i + kAhead < nodes.size()) {
      __builtin_prefetch(&iters_[ptr_[nodes[i + kAhead]]], /*rw=*/1);
    }
    iters_[ptr_[nodes[i]]++] = batch;
  }
}

void AccessTable::EndPlacing() {
  iters_.back() = kNever;
  // Each entry of ptr_ now is the end of the node's list, where the next node's
  // list begins: shift by one node.
  if (ptr_.empty()) return;
  std::copy_backward(ptr_.begin(), ptr_.end() - 1, ptr_.end());
  ptr_.front() = 0;
  // A node that is never needed points at the first entry of the next node.
  for (const int64_t first : ptr_) iters_[first] |= kFirst;
}

void AccessTable::Advance(absl::Span<const NodeId> nodes,
                          absl::Span<uint32_t> next) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + 2 * kAhead < nodes.size()) {
      __builtin_prefetch(&ptr_[nodes[i + 2 * kAhead]], /*rw=*/1);
    }
    if (i + kAhead < nodes.size()) {
      __builtin_prefetch(&iters_[ptr_[nodes[i + kAhead]]]);
    }
    int64_t& at = ptr_[nodes[i]];
    ++at;
    // Behind a node's last entry stands another node's first entry.
    if ((iters_[at] & kFirst) != 0) {
      at = static_cast<int64_t>(iters_.size()) - 1;
    }
    next[i] = iters_[at];
  }
}

// The paper selects among all candidates for each batch, which suits a GPU.
// Here the rows inside are kept in buckets by the batch that needs them next,
// so that a batch costs no more than its own rows:
//
//  1. Bucket i has the rows that batch i finds inside. All of them move to the
//     buckets of their next batch.
//  2. The rows that batch i does not find inside, and that are needed again,
//     replace rows inside, one by one: the soonest needed of the former
//     replaces the last needed of the latter, as long as it is needed earlier.
//     A row that has just entered is needed no later than the rows that enter
//     after it, so it never leaves in the same step.
//
// Before step 2 the cache is full, or holds every row of the trace: it starts
// with the rows needed first, and each entering row replaces another.

namespace {

/// The rows inside the cache, and the batch that needs each next.
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

  /// Puts a row that is inside and in no bucket into the bucket of `next`.
  void Place(NodeId node, uint32_t next) {
    const size_t at = std::min<size_t>(next, buckets_.size() - 1);
    Bucket& bucket = buckets_[at];
    bucket.nodes.push_back(node);
    if (bucket.is_heap) {
      std::push_heap(bucket.nodes.begin(), bucket.nodes.end());
    }
    last_ = std::max(last_, at);
  }

  /// Takes the rows needed in `batch` out of their bucket.
  void Empty(uint32_t batch) { buckets_[batch] = {}; }

  /// Whether a row needed in `next` is needed earlier than some row inside.
  bool ShouldEnter(uint32_t next) {
    while (last_ > 0 && buckets_[last_].nodes.empty()) --last_;
    return !buckets_[last_].nodes.empty() && next < last_;
  }

  /// Removes the row that is needed last; of several, the one of largest
  /// number. REQUIRES: ShouldEnter returned true.
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
    // Whether `nodes` is a heap with the largest on top: so from the first
    // removal on.
    bool is_heap = false;
  };

  std::vector<bool> resident_;
  // Rows by the batch that needs them next; the last bucket is "never".
  std::vector<Bucket> buckets_;
  // Buckets behind this one are empty.
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
    // Puts the row that enters first on top of a heap.
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

  // Adds the rows that `batch` is the first to need to the initial rows. Until
  // the cache is full, the rows inside are all rows needed so far.
  void Fill(uint32_t batch, Nodes nodes) {
    auto free_rows = static_cast<size_t>(shape_.capacity) - initial_.size();
    if (free_rows == 0) return;
    const size_t before = initial_.size();
    for (const NodeId node : nodes) {
      if (!rows_.Contains(node)) initial_.push_back(node);
    }
    const auto fresh = initial_.begin() + static_cast<ptrdiff_t>(before);
    if (initial_.size() - before > free_rows) {
      const auto end = fresh + static_cast<ptrdiff_t>(free_rows);
      std::nth_element(fresh, end, initial_.end());
      initial_.erase(end, initial_.end());
    }
    for (auto node = fresh; node != initial_.end(); ++node) {
      rows_.Add(*node, batch);
    }
  }

  // Sets changeset_ to the changes after `batch`.
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

  // Step 2 of the comment above.
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
  // Each row of a cache that is not full was accessed.
  const auto rows =
      static_cast<uint64_t>(std::min(shape.capacity, num_accesses));
  return AccessTable::MemoryBytes(shape.num_nodes, num_accesses) + nodes / 8 +
         1 + 24 * rows + 88 * static_cast<uint64_t>(largest_batch) +
         32 * (static_cast<uint64_t>(num_batches) + 1);
}

// A record of the file: Header, in_ids, out_ids, in_positions. The initial rows
// are the in_ids of record 0; record b + 1 is the changeset of batch b.

namespace {

struct Header {
  uint64_t record;
  uint64_t num_in;
  uint64_t num_out;
  uint64_t num_positions;
  // The CRC32C of the fields above and of the record behind the header.
  uint32_t crc;
  uint32_t zero;

  uint64_t record_bytes() const {
    return sizeof(Header) + (num_in + num_out) * sizeof(NodeId) +
           num_positions * sizeof(int32_t);
  }
};

uint32_t RecordCrc(const Header& header, absl::Span<const std::byte> record) {
  return Crc32c(record.subspan(sizeof(Header)),
                Crc32c({reinterpret_cast<const std::byte*>(&header),
                        offsetof(Header, crc)}));
}

template <typename T>
void AppendNumbers(const std::vector<T>& values, std::byte*& at) {
  if (values.empty()) return;
  std::memcpy(at, values.data(), values.size() * sizeof(T));
  at += values.size() * sizeof(T);
}

template <typename T>
void Take(uint64_t count, const std::byte*& at, std::vector<T>& values) {
  values.resize(count);
  if (count == 0) return;
  std::memcpy(values.data(), at, count * sizeof(T));
  at += count * sizeof(T);
}

/// False if `bytes` is not record `number`.
bool Decode(absl::Span<const std::byte> bytes, uint64_t number,
            Changeset& changeset) {
  Header header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.crc != RecordCrc(header, bytes) || header.record != number ||
      header.record_bytes() != bytes.size()) {
    return false;
  }
  const std::byte* at = bytes.data() + sizeof(header);
  Take(header.num_in, at, changeset.in_ids);
  Take(header.num_out, at, changeset.out_ids);
  Take(header.num_positions, at, changeset.in_positions);
  return true;
}

}  // namespace

ChangesetFileWriter::ChangesetFileWriter(io::FileSystem& files,
                                         std::string path,
                                         std::unique_ptr<io::WritableFile> file)
    : files_(files), path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<ChangesetFileWriter>>
ChangesetFileWriter::Create(io::FileSystem& files, std::string path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.Create(path));
  return std::unique_ptr<ChangesetFileWriter>(
      new ChangesetFileWriter(files, std::move(path), std::move(file)));
}

ChangesetFileWriter::~ChangesetFileWriter() {
  // The error that led here was reported; the folder is removed with the pass.
  if (!finished_) files_.RemoveTree(path_).IgnoreError();
}

absl::Status ChangesetFileWriter::Initialize(absl::Span<const NodeId> ids) {
  Changeset initial;
  initial.in_ids.assign(ids.begin(), ids.end());
  return Append(initial);
}

absl::Status ChangesetFileWriter::Update(int64_t /*batch*/,
                                         const Changeset& changeset) {
  return Append(changeset);
}

absl::Status ChangesetFileWriter::Append(const Changeset& changeset) {
  Header header = {};
  header.record = offsets_.size() - 1;
  header.num_in = changeset.in_ids.size();
  header.num_out = changeset.out_ids.size();
  header.num_positions = changeset.in_positions.size();
  std::vector<std::byte> record(header.record_bytes());
  std::byte* at = record.data() + sizeof(header);
  AppendNumbers(changeset.in_ids, at);
  AppendNumbers(changeset.out_ids, at);
  AppendNumbers(changeset.in_positions, at);
  header.crc = RecordCrc(header, record);
  std::memcpy(record.data(), &header, sizeof(header));
  HEARTH_RETURN_IF_ERROR(file_->Append(record));
  offsets_.push_back(offsets_.back() + record.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ChangesetFileWriter::Finish() {
  HEARTH_RETURN_IF_ERROR(file_->Close());
  finished_ = true;
  return std::move(offsets_);
}

ChangesetFileReader::ChangesetFileReader(std::unique_ptr<io::ReadableFile> file,
                                         std::vector<uint64_t> offsets)
    : file_(std::move(file)), offsets_(std::move(offsets)) {}

absl::StatusOr<std::unique_ptr<ChangesetFileReader>> ChangesetFileReader::Open(
    io::FileSystem& files, const std::string& path,
    std::vector<uint64_t> offsets) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (info.size_bytes != offsets.back()) {
    return absl::DataLossError(absl::StrCat(path, ": has ", info.size_bytes,
                                            " bytes, not ", offsets.back()));
  }
  return std::unique_ptr<ChangesetFileReader>(
      new ChangesetFileReader(std::move(file), std::move(offsets)));
}

absl::StatusOr<Changeset> ChangesetFileReader::Read(size_t record) const {
  const uint64_t offset = offsets_[record];
  std::vector<std::byte> bytes(offsets_[record + 1] - offset);
  Changeset changeset;
  // A second read heals damage in transit; damage on disk stays.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(offset, absl::MakeSpan(bytes)));
    if (Decode(bytes, record, changeset)) return changeset;
  }
  return absl::DataLossError(
      absl::StrCat(file_->path(), ": the changeset at byte ", offset,
                   " is damaged (its checksum does not match)"));
}

absl::StatusOr<std::vector<NodeId>> ChangesetFileReader::ReadInitial() const {
  HEARTH_ASSIGN_OR_RETURN(Changeset initial, Read(0));
  return std::move(initial.in_ids);
}

absl::StatusOr<Changeset> ChangesetFileReader::ReadUpdate(int64_t batch) const {
  return Read(static_cast<size_t>(batch) + 1);
}

}  // namespace hearth::strategy
