#include "engine/ingest/formats/node_numbering.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"

namespace hearth::ingest {

namespace {

// Share of the budget for the bytes of ids: a quarter. An id takes further a
// view of 16 bytes, up to 17 in the set while the set grows, and 4 while ids
// are sorted.
constexpr uint64_t kTextShare = 4;
constexpr uint64_t kBytesPerId = 40;
constexpr uint64_t kMaxIds = INT32_MAX - 1;

}  // namespace

IdTable::IdTable(uint64_t budget_bytes)
    : text_bytes_(
          std::max<uint64_t>(budget_bytes / kTextShare, 2 * kMaxIdBytes)),
      max_ids_(std::clamp<uint64_t>(
          (budget_bytes - budget_bytes / kTextShare) / kBytesPerId, 2,
          kMaxIds)),
      // Pages are not touched before they are used.
      text_(std::make_unique_for_overwrite<char[]>(text_bytes_)),
      numbers_(0, Hash{&ids_}, Equal{&ids_}) {
  ids_.reserve(max_ids_);
}

bool IdTable::HasRoom() const {
  return ids_.size() + 2 <= max_ids_ &&
         used_bytes_ + 2 * kMaxIdBytes <= text_bytes_;
}

uint32_t IdTable::Add(absl::string_view id) {
  const auto found = numbers_.find(id);
  if (found != numbers_.end()) return *found;
  char* const kept = text_.get() + used_bytes_;
  std::copy(id.begin(), id.end(), kept);
  used_bytes_ += id.size();
  const auto number = static_cast<uint32_t>(ids_.size());
  ids_.emplace_back(kept, id.size());
  numbers_.insert(number);
  return number;
}

std::vector<uint32_t> IdTable::Sorted() const {
  std::vector<uint32_t> order(ids_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return ids_[a] < ids_[b]; });
  return order;
}

void IdTable::Clear() {
  numbers_.clear();
  ids_.clear();
  used_bytes_ = 0;
}

namespace {

constexpr size_t kBufferBytes = 256 << 10;

/// Comes before the bytes of an id.
struct RecordHead {
  uint32_t number;
  uint32_t id_bytes;
};
static_assert(sizeof(RecordHead) + kMaxIdBytes == kMinRunBufferBytes);

void AppendBytes(const void* data, size_t size, std::vector<std::byte>& out) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdRunWriter>> IdRunWriter::Create(
    ImportContext& context) {
  HEARTH_ASSIGN_OR_RETURN(std::string path, context.NewScratchPath("ids"));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          context.files().Create(path));
  return std::unique_ptr<IdRunWriter>(
      new IdRunWriter(std::move(path), std::move(file)));
}

absl::Status IdRunWriter::Write(const IdTable& table) {
  IdRun run;
  run.num_ids = static_cast<int64_t>(table.size());
  run.offset = size_bytes_;
  for (const uint32_t number : table.Sorted()) {
    const absl::string_view id = table.id(number);
    const RecordHead head{number, static_cast<uint32_t>(id.size())};
    AppendBytes(&head, sizeof(head), buffer_);
    AppendBytes(id.data(), id.size(), buffer_);
    if (buffer_.size() >= kBufferBytes) HEARTH_RETURN_IF_ERROR(Flush(run));
  }
  HEARTH_RETURN_IF_ERROR(Flush(run));
  runs_.push_back(run);
  return absl::OkStatus();
}

absl::Status IdRunWriter::Flush(IdRun& run) {
  run.crc32c = Crc32c(buffer_, run.crc32c);
  run.size_bytes += buffer_.size();
  size_bytes_ += buffer_.size();
  HEARTH_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

IdRunReader::IdRunReader(io::ReadableFile& file, const IdRun& run,
                         size_t buffer_bytes)
    : file_(&file), run_(run), buffer_bytes_(buffer_bytes) {}

absl::Status IdRunReader::Damaged() const {
  return absl::DataLossError(
      absl::StrCat(file_->path(), ": the ids from byte ", run_.offset,
                   " on differ from the ids that were written"));
}

absl::Status IdRunReader::Fill() {
  const size_t kept = buffer_.size() - begin_;
  const size_t added =
      std::min<uint64_t>(buffer_bytes_ - kept, run_.size_bytes - bytes_read_);
  if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
  begin_ = 0;
  buffer_.resize(kept + added);
  const auto space = absl::MakeSpan(buffer_).subspan(kept);
  HEARTH_RETURN_IF_ERROR(file_->Read(run_.offset + bytes_read_, space));
  crc32c_ = Crc32c(space, crc32c_);
  bytes_read_ += added;
  const bool is_last = bytes_read_ == run_.size_bytes;
  return is_last && crc32c_ != run_.crc32c ? Damaged() : absl::OkStatus();
}

absl::StatusOr<bool> IdRunReader::Next() {
  const bool is_last = bytes_read_ == run_.size_bytes;
  if (buffer_.size() - begin_ < kMinRunBufferBytes && !is_last) {
    HEARTH_RETURN_IF_ERROR(Fill());
  }
  const size_t left = buffer_.size() - begin_;
  if (left == 0) return false;
  RecordHead head;
  if (left < sizeof(head)) return Damaged();
  std::memcpy(&head, buffer_.data() + begin_, sizeof(head));
  if (head.id_bytes > left - sizeof(head) || head.number >= run_.num_ids) {
    return Damaged();
  }
  id_ = absl::string_view(
      reinterpret_cast<const char*>(buffer_.data()) + begin_ + sizeof(head),
      head.id_bytes);
  number_ = head.number;
  begin_ += sizeof(head) + head.id_bytes;
  return true;
}

namespace {

// Memory of a run in a merge: three quarters to read it, a quarter to write its
// map.
constexpr uint64_t kMinShareBytes = 2 << 10;
constexpr uint64_t kMaxShareBytes = 1 << 20;
static_assert(kMinShareBytes / 4 * 3 >= kMinRunBufferBytes);
constexpr uint64_t kProgressBytes = 256 << 10;
constexpr size_t kLoadEntries = 4 << 10;

struct Entry {
  int64_t number;
  int64_t node;
};
static_assert(sizeof(Entry) == kNodeMapEntryBytes);

absl::Span<const std::byte> BytesOf(const std::vector<Entry>& entries) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(entries.data()),
                             entries.size() * sizeof(Entry));
}

uint64_t MergeBytes(const ImportContext& context) {
  return context.memory_limit_bytes() / 2;
}

class IdMerge {
 public:
  IdMerge(ImportContext& context, const IdRunWriter& runs)
      : context_(context), runs_(runs) {}

  absl::StatusOr<NodeMaps> Run(
      absl::FunctionRef<absl::Status(absl::string_view)> visit) {
    HEARTH_RETURN_IF_ERROR(Open());
    std::string id;
    while (!heap_.empty()) {
      const absl::string_view least = inputs_[heap_.front()].id();
      id.assign(least.data(), least.size());
      HEARTH_RETURN_IF_ERROR(visit(id));
      while (!heap_.empty() && inputs_[heap_.front()].id() == id) {
        HEARTH_RETURN_IF_ERROR(TakeFirst());
      }
      ++maps_.num_nodes;
    }
    for (size_t run = 0; run < inputs_.size(); ++run) {
      HEARTH_RETURN_IF_ERROR(Flush(run));
    }
    HEARTH_RETURN_IF_ERROR(map_file_->Close());
    HEARTH_RETURN_IF_ERROR(context_.Advance(unreported_));
    return std::move(maps_);
  }

 private:
  struct Output {
    std::vector<Entry> entries;
    uint64_t next_offset = 0;
  };

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(run_file_,
                            context_.files().OpenForRead(runs_.path()));
    HEARTH_ASSIGN_OR_RETURN(maps_.path, context_.NewScratchPath("nodes"));
    HEARTH_ASSIGN_OR_RETURN(map_file_, context_.files().Create(maps_.path));
    const std::vector<IdRun>& runs = runs_.runs();
    const uint64_t share =
        std::clamp(MergeBytes(context_) / std::max<size_t>(runs.size(), 1),
                   kMinShareBytes, kMaxShareBytes);
    buffered_entries_ = share / 4 / sizeof(Entry);
    uint64_t offset = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      inputs_.emplace_back(*run_file_, runs[i], share / 4 * 3);
      outputs_.emplace_back().next_offset = offset;
      maps_.extents.push_back({runs[i].num_ids, offset, 0});
      offset += static_cast<uint64_t>(runs[i].num_ids) * sizeof(Entry);
      HEARTH_RETURN_IF_ERROR(Push(i));
    }
    return absl::OkStatus();
  }

  /// Orders the heap: the run with the least next id comes first.
  auto Order() const {
    return [this](size_t a, size_t b) {
      return inputs_[b].id() < inputs_[a].id();
    };
  }

  /// Advances a run to its next id and puts it on the heap, if it has one.
  absl::Status Push(size_t run) {
    HEARTH_ASSIGN_OR_RETURN(const bool more, inputs_[run].Next());
    if (!more) return absl::OkStatus();
    heap_.push_back(run);
    std::push_heap(heap_.begin(), heap_.end(), Order());
    unreported_ += inputs_[run].id().size() + 2 * sizeof(uint32_t);
    if (unreported_ < kProgressBytes) return absl::OkStatus();
    return context_.Advance(std::exchange(unreported_, 0));
  }

  /// Takes the first id of the heap for the current node.
  absl::Status TakeFirst() {
    const size_t run = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Order());
    heap_.pop_back();
    std::vector<Entry>& entries = outputs_[run].entries;
    entries.push_back({inputs_[run].number(), maps_.num_nodes});
    if (entries.size() >= buffered_entries_) {
      HEARTH_RETURN_IF_ERROR(Flush(run));
    }
    return Push(run);
  }

  absl::Status Flush(size_t run) {
    Output& output = outputs_[run];
    const absl::Span<const std::byte> bytes = BytesOf(output.entries);
    uint32_t& crc32c = maps_.extents[run].crc32c;
    crc32c = Crc32c(bytes, crc32c);
    HEARTH_RETURN_IF_ERROR(map_file_->Write(output.next_offset, bytes));
    output.next_offset += bytes.size();
    output.entries.clear();
    return absl::OkStatus();
  }

  ImportContext& context_;
  const IdRunWriter& runs_;
  std::unique_ptr<io::ReadableFile> run_file_;
  std::unique_ptr<io::WritableFile> map_file_;
  std::vector<IdRunReader> inputs_;
  std::vector<Output> outputs_;
  size_t buffered_entries_ = 0;
  std::vector<size_t> heap_;
  uint64_t unreported_ = 0;
  NodeMaps maps_;
};

}  // namespace

size_t MaxRunsToMerge(const ImportContext& context) {
  return std::max<uint64_t>(MergeBytes(context) / kMinShareBytes, 1);
}

absl::StatusOr<NodeMaps> MergeIdRuns(
    ImportContext& context, const IdRunWriter& runs,
    absl::FunctionRef<absl::Status(absl::string_view id)> visit) {
  return IdMerge(context, runs).Run(visit);
}

absl::Status LoadNodeMap(io::ReadableFile& file, const NodeMaps::Extent& extent,
                         std::vector<int64_t>& nodes) {
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat(file.path(), ": the nodes from byte ", extent.offset,
                   " on differ from the ids that were written"));
  const auto count = static_cast<size_t>(extent.num_ids);
  nodes.resize(count);
  std::vector<Entry> entries;
  uint32_t crc32c = 0;
  for (size_t first = 0; first < count; first += entries.size()) {
    entries.resize(std::min(kLoadEntries, count - first));
    HEARTH_RETURN_IF_ERROR(
        file.Read(extent.offset + first * sizeof(Entry),
                  absl::MakeSpan(reinterpret_cast<std::byte*>(entries.data()),
                                 entries.size() * sizeof(Entry))));
    crc32c = Crc32c(BytesOf(entries), crc32c);
    for (const Entry& entry : entries) {
      if (entry.number < 0 || entry.number >= extent.num_ids) return damaged;
      nodes[static_cast<size_t>(entry.number)] = entry.node;
    }
  }
  return crc32c == extent.crc32c ? absl::OkStatus() : damaged;
}

// 1. Edges arrive. A table numbers their ids; edges are spooled with these
//    numbers. When the table is full, its ids, sorted, become a run, and a new
//    table begins.
// 2. The runs are merged. Equal ids of several runs are one node, which the
// order
//    of the merge numbers. Each run gets a map from its table's numbers to
// nodes,
//    no larger than the table was.
// 3. Table by table, the edges are read again and mapped.

namespace {

constexpr int64_t kBlockEdges = 4 << 10;
constexpr uint64_t kLocalEdgeBytes = 8;

using Key = std::array<char, sizeof(int64_t)>;

/// Bytes that are ordered as the numbers are: sign flipped, big-endian.
Key KeyOf(int64_t id) {
  uint64_t bits = static_cast<uint64_t>(id) ^ (uint64_t{1} << 63);
  Key key;
  for (size_t i = key.size(); i-- > 0; bits >>= 8) {
    key[i] = static_cast<char>(bits & 0xFF);
  }
  return key;
}

int64_t IdOf(absl::string_view key) {
  uint64_t bits = 0;
  for (const char c : key) bits = bits << 8 | static_cast<unsigned char>(c);
  return static_cast<int64_t>(bits ^ (uint64_t{1} << 63));
}

absl::string_view View(const Key& key) { return {key.data(), key.size()}; }

/// Writes the ids of the nodes in the form in which the dataset keeps them.
class IdArray {
 public:
  IdArray(NodeNumbering::IdKind kind, ScratchArray& array)
      : is_text_(kind == NodeNumbering::IdKind::kText), array_(array) {}

  absl::Status Append(absl::string_view key) {
    if (!is_text_) {
      ++size_;
      const int64_t id = IdOf(key);
      return array_.AppendValues(absl::MakeConstSpan(&id, 1));
    }
    if (size_ > 0) HEARTH_RETURN_IF_ERROR(AppendText("\n"));
    return AppendText(key);
  }

  absl::StatusOr<std::unique_ptr<ArrayReader>> Finish() {
    return array_.Finish({size_});
  }

  static store::ElementType Type(NodeNumbering::IdKind kind) {
    return kind == NodeNumbering::IdKind::kText
               ? store::ElementType{store::ElementType::Kind::kUint, 1}
               : store::ElementType{store::ElementType::Kind::kInt,
                                    sizeof(int64_t)};
  }

 private:
  absl::Status AppendText(absl::string_view text) {
    size_ += static_cast<int64_t>(text.size());
    return array_.AppendValues(absl::MakeConstSpan(text.data(), text.size()));
  }

  const bool is_text_;
  ScratchArray& array_;
  /// Number of elements.
  int64_t size_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NodeNumbering>> NodeNumbering::Create(
    ImportContext& context, IdKind kind, std::string source) {
  auto numbering = std::unique_ptr<NodeNumbering>(
      new NodeNumbering(context, kind, std::move(source)));
  numbering->table_ =
      std::make_unique<IdTable>(context.memory_limit_bytes() / 2);
  HEARTH_ASSIGN_OR_RETURN(numbering->runs_, IdRunWriter::Create(context));
  HEARTH_ASSIGN_OR_RETURN(numbering->local_edges_, EdgeSpool::Create(context));
  return numbering;
}

absl::Status NodeNumbering::Add(int64_t source, int64_t destination) {
  const Key from = KeyOf(source);
  const Key to = KeyOf(destination);
  return Add(View(from), View(to));
}

absl::Status NodeNumbering::Add(absl::string_view source,
                                absl::string_view destination) {
  if (!table_->HasRoom()) HEARTH_RETURN_IF_ERROR(EndTable());
  const uint32_t from = table_->Add(source);
  const uint32_t to = table_->Add(destination);
  return local_edges_->Add(from, to);
}

absl::Status NodeNumbering::EndTable() {
  const size_t max_tables = MaxRunsToMerge(context_);
  if (edge_ends_.size() == max_tables) {
    return absl::ResourceExhaustedError(
        absl::StrCat(source_, ": numbering the ids takes more than ",
                     max_tables, " sorted parts, of ", table_->size(),
                     " ids, which is what the import's memory limit of ",
                     FormatByteSize(context_.memory_limit_bytes()), " allows"));
  }
  HEARTH_RETURN_IF_ERROR(runs_->Write(*table_));
  edge_ends_.push_back(num_edges());
  table_->Clear();
  return absl::OkStatus();
}

absl::Status NodeNumbering::CheckSpace() const {
  uint64_t bytes = static_cast<uint64_t>(num_edges()) * kLocalEdgeBytes;
  // Upper bound: no id is in two runs.
  bytes += runs_->size_bytes();
  for (const IdRun& run : runs_->runs()) {
    bytes += static_cast<uint64_t>(run.num_ids) * kNodeMapEntryBytes;
  }
  return context_.CheckSpace(bytes,
                             absl::StrCat("numbering the nodes of ", source_));
}

absl::StatusOr<NodeMaps> NodeNumbering::Merge(NumberedEdges& numbered) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchArray> array,
      ScratchArray::Create(context_, IdArray::Type(kind_), source_));
  IdArray ids(kind_, *array);
  HEARTH_ASSIGN_OR_RETURN(
      NodeMaps maps, MergeIdRuns(context_, *runs_, [&](absl::string_view id) {
        return ids.Append(id);
      }));
  numbered.num_nodes = maps.num_nodes;
  HEARTH_ASSIGN_OR_RETURN(numbered.ids, ids.Finish());
  return maps;
}

absl::StatusOr<std::unique_ptr<EdgeSource>> NodeNumbering::Renumber(
    const NodeMaps& maps) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSource> local,
                          local_edges_->Finish());
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context_));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          context_.files().OpenForRead(maps.path));
  std::vector<int64_t> nodes;
  EdgeBlock block;
  int64_t next = 0;
  for (size_t table = 0; table < edge_ends_.size(); ++table) {
    HEARTH_RETURN_IF_ERROR(LoadNodeMap(*file, maps.extents[table], nodes));
    while (next < edge_ends_[table]) {
      const int64_t count = std::min(kBlockEdges, edge_ends_[table] - next);
      HEARTH_RETURN_IF_ERROR(local->Read(next, count, block));
      for (size_t i = 0; i < block.size(); ++i) {
        // Damage shows at the end of the pass only, so ends are checked here,
        // too.
        const auto from = static_cast<size_t>(block.sources[i]);
        const auto to = static_cast<size_t>(block.destinations[i]);
        if (std::max(from, to) >= nodes.size()) {
          return absl::DataLossError(absl::StrCat(
              source_, ": its edges have changed since they were read"));
        }
        HEARTH_RETURN_IF_ERROR(spool->Add(nodes[from], nodes[to]));
      }
      next += count;
      HEARTH_RETURN_IF_ERROR(
          context_.Advance(static_cast<uint64_t>(count) * kLocalEdgeBytes));
    }
  }
  return spool->Finish();
}

absl::StatusOr<NumberedEdges> NodeNumbering::Finish() {
  if (table_->size() > 0) HEARTH_RETURN_IF_ERROR(EndTable());
  // Frees memory for the merge.
  table_.reset();
  HEARTH_RETURN_IF_ERROR(runs_->Close());
  HEARTH_RETURN_IF_ERROR(CheckSpace());
  context_.Begin("numbering",
                 runs_->size_bytes() +
                     static_cast<uint64_t>(num_edges()) * kLocalEdgeBytes);
  NumberedEdges numbered;
  HEARTH_ASSIGN_OR_RETURN(const NodeMaps maps, Merge(numbered));
  HEARTH_RETURN_IF_ERROR(context_.files().RemoveTree(runs_->path()));
  HEARTH_ASSIGN_OR_RETURN(numbered.edges, Renumber(maps));
  HEARTH_RETURN_IF_ERROR(context_.files().RemoveTree(maps.path));
  return numbered;
}

}  // namespace hearth::ingest
