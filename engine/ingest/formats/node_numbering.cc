#include "engine/ingest/formats/node_numbering.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/scratch_array.h"
#include "engine/io/file_system.h"
#include "engine/store/array_header.h"

// 1. Edges come. A table numbers their ids as they come; edges are spooled with
//    these numbers. When the table is full its ids, sorted, become a run, and a
//    new table begins.
// 2. The runs are merged. Equal ids of several runs are one node; the order of
//    the merge numbers it. Each run gets a map from its table's numbers to
//    nodes, no larger than the table was.
// 3. Table by table, the edges are read again and mapped.

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockEdges = 4 << 10;
constexpr uint64_t kLocalEdgeBytes = 8;

using Key = std::array<char, sizeof(int64_t)>;

/// Bytes in the order of which numbers ascend: the sign flipped, big-endian.
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

/// Writes ids as they are kept beside the nodes.
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
  /// Elements.
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
  // At worst, no id is in two runs.
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
        // Ends are only known to be those that were written after the pass.
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
  // The merge needs its memory.
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
