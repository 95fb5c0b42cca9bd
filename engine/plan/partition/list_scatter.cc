#include "engine/plan/partition/list_scatter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/partition/topology_scan.h"

// A chunk is a sequence of records. A record consists of ids: a node; twice the
// number of its neighbors in the record, plus 1 if the list continues in the
// next record; and these neighbors.

namespace hearth::plan {

namespace {

using store::NodeId;

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kHeaderIds = 2;

uint64_t InPages(uint64_t bytes) { return RoundUp(bytes, kPageBytes); }

/// Reads the chunks of one part.
class ScatterReader final : public ListReader {
 public:
  ScatterReader(io::ReadableFile& file, int part, int id_bytes,
                absl::Span<const ScatterChunk> chunks, io::AlignedMemory memory)
      : file_(file),
        part_(static_cast<uint64_t>(part)),
        id_bytes_(id_bytes),
        chunks_(chunks),
        memory_(std::move(memory)) {}

  absl::Status Next(ListWindow& window) override {
    window.nodes.clear();
    window.ends.clear();
    window.neighbors.resize(ListWindow::kMaxNeighbors);
    size_t filled = 0;
    if (in_list_) Begin(window);
    while (filled < ListWindow::kMaxNeighbors) {
      if (left_ == 0) {
        if (!in_list_ && window.size() == ListWindow::kMaxLists) break;
        if (rest_.empty() && chunks_.empty()) break;
        HEARTH_RETURN_IF_ERROR(NextRecord(window));
      }
      const size_t taken = std::min(left_, ListWindow::kMaxNeighbors - filled);
      Take(taken, window.neighbors.data() + filled);
      left_ -= taken;
      filled += taken;
      window.ends.back() = static_cast<uint32_t>(filled);
      in_list_ = left_ > 0 || goes_on_;
    }
    window.neighbors.resize(filled);
    window.is_cut = in_list_;
    return absl::OkStatus();
  }

 private:
  void Begin(ListWindow& window) const {
    window.nodes.push_back(node_);
    window.ends.push_back(0);
  }

  void Take(size_t count, NodeId* to) {
    DecodeIds(rest_.data(), count, id_bytes_, to);
    rest_.remove_prefix(count * static_cast<size_t>(id_bytes_));
  }

  absl::Status NextRecord(ListWindow& window) {
    if (rest_.empty()) HEARTH_RETURN_IF_ERROR(NextChunk());
    std::array<NodeId, kHeaderIds> header;
    Take(header.size(), header.data());
    node_ = header[0];
    left_ = static_cast<size_t>(header[1]) / 2;
    goes_on_ = header[1] % 2 != 0;
    if (!in_list_) Begin(window);
    return absl::OkStatus();
  }

  absl::Status NextChunk() {
    const ScatterChunk& chunk = chunks_.front();
    const absl::Span<std::byte> bytes =
        memory_.bytes().first(InPages(chunk.bytes));
    // Damage in transit is gone at the second reading; damage on disk is not.
    for (int attempt = 0; attempt < 2; ++attempt) {
      HEARTH_RETURN_IF_ERROR(file_.Read(chunk.offset, bytes));
      rest_ = bytes.first(chunk.bytes);
      if (BlockCrc32c(rest_, part_, chunk.offset) == chunk.crc32c) {
        chunks_.remove_prefix(1);
        return absl::OkStatus();
      }
    }
    return absl::DataLossError(
        absl::StrCat(file_.path(), ": the chunk at byte ", chunk.offset,
                     " is damaged (its checksum does not match)"));
  }

  io::ReadableFile& file_;
  const uint64_t part_;
  const int id_bytes_;
  // Chunks that are not yet read.
  absl::Span<const ScatterChunk> chunks_;
  io::AlignedMemory memory_;
  // Unread rest of the current chunk.
  absl::Span<const std::byte> rest_;
  // The current list: its node, neighbors left in the current record, whether
  // another record follows, and whether anything of it is left.
  NodeId node_ = 0;
  size_t left_ = 0;
  bool goes_on_ = false;
  bool in_list_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ListReader>> ScatteredLists::Read(
    int part) const {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kScatterChunkBytes));
  return std::make_unique<ScatterReader>(*file_, part, id_bytes_,
                                         chunks_[static_cast<size_t>(part)],
                                         std::move(memory));
}

absl::Status ScatteredLists::ForEachWindow(
    int part, const std::stop_token& stop,
    absl::FunctionRef<void(const ListWindow&)> use) const {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ListReader> reader, Read(part));
  ListWindow window;
  while (true) {
    if (stop.stop_requested()) {
      return absl::CancelledError("partitioning was stopped on request");
    }
    HEARTH_RETURN_IF_ERROR(reader->Next(window));
    if (window.empty()) return absl::OkStatus();
    use(window);
  }
}

uint64_t ListScatter::FileBytes(int64_t lists, int64_t neighbors, int parts,
                                int id_bytes) {
  const auto ids = static_cast<uint64_t>(lists) * kHeaderIds +
                   static_cast<uint64_t>(neighbors);
  const uint64_t bytes = ids * static_cast<uint64_t>(id_bytes);
  // A chunk may begin with the header of a continued list, and leaves less than
  // a header and a neighbor unused. A window may also cut a list.
  const uint64_t chunks =
      bytes / (kScatterChunkBytes / 2) + static_cast<uint64_t>(parts);
  return InPages(bytes + chunks * (kPageBytes + 128));
}

absl::StatusOr<std::unique_ptr<ListScatter>> ListScatter::Create(
    io::FileSystem& files, const std::string& path, int parts, int id_bytes,
    uint64_t file_bytes) {
  auto scatter = std::unique_ptr<ListScatter>(
      new ListScatter(files, path, parts, id_bytes));
  HEARTH_ASSIGN_OR_RETURN(scatter->memory_,
                          io::AlignedMemory::Allocate(MemoryBytes(parts)));
  HEARTH_ASSIGN_OR_RETURN(scatter->file_, files.CreateUncached(path));
  HEARTH_RETURN_IF_ERROR(scatter->file_->Allocate(file_bytes));
  return scatter;
}

absl::Status ListScatter::Append(int part, NodeId node,
                                 absl::Span<const NodeId> neighbors,
                                 bool ends) {
  const auto index = static_cast<size_t>(part);
  std::byte* const chunk = memory_.bytes().data() + index * kScatterChunkBytes;
  while (true) {
    const uint64_t space = (kScatterChunkBytes - filled_[index]) / id_bytes_;
    if (space <= kHeaderIds) {
      HEARTH_RETURN_IF_ERROR(Flush(index));
      continue;
    }
    const size_t count =
        std::min<uint64_t>(neighbors.size(), space - kHeaderIds);
    const bool goes_on = count < neighbors.size() || !ends;
    const std::array<NodeId, kHeaderIds> header = {
        node, static_cast<NodeId>(2 * count + (goes_on ? 1 : 0))};
    std::byte* to = chunk + filled_[index];
    EncodeIds(header.data(), header.size(), static_cast<int>(id_bytes_), to);
    to += header.size() * id_bytes_;
    EncodeIds(neighbors.data(), count, static_cast<int>(id_bytes_), to);
    filled_[index] += (kHeaderIds + count) * id_bytes_;
    neighbors.remove_prefix(count);
    if (neighbors.empty()) return absl::OkStatus();
  }
}

absl::Status ListScatter::Flush(size_t part) {
  const uint64_t bytes = filled_[part];
  if (bytes == 0) return absl::OkStatus();
  std::byte* const chunk = memory_.bytes().data() + part * kScatterChunkBytes;
  const uint64_t written = InPages(bytes);
  std::memset(chunk + bytes, 0, written - bytes);
  HEARTH_RETURN_IF_ERROR(file_->Append(absl::MakeConstSpan(chunk, written)));
  chunks_[part].push_back(
      {end_, static_cast<uint32_t>(bytes),
       BlockCrc32c(absl::MakeConstSpan(chunk, bytes), part, end_)});
  end_ += written;
  filled_[part] = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ScatteredLists>> ListScatter::Finish() {
  for (size_t part = 0; part < filled_.size(); ++part) {
    HEARTH_RETURN_IF_ERROR(Flush(part));
  }
  HEARTH_RETURN_IF_ERROR(file_->Close());
  memory_ = io::AlignedMemory();
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files_.OpenForScan(path_));
  return std::unique_ptr<ScatteredLists>(new ScatteredLists(
      std::move(file), static_cast<int>(id_bytes_), std::move(chunks_)));
}

namespace {

// Memory of the windows of all threads together.
constexpr uint64_t kAllWindowsBytes = 128 << 20;

/// Writes one area: a piece of it at a time.
class AreaWriter {
 public:
  AreaWriter(const PartitionContext& context, const ScatteredLists& lists,
             const NodeLabels<uint16_t>& labels, const PartArea& area)
      : context_(context),
        lists_(lists),
        labels_(labels),
        area_(area),
        id_bytes_(static_cast<uint64_t>(context.id_bytes())) {}

  /// Sets the places of the parts and returns the end of the last one.
  uint64_t Arrange() {
    uint64_t end = area_.offset;
    for (PartEntry& part : area_.parts) {
      part.offset = RoundUp(end, kPartAlignment);
      end = part.offset + part.bytes(static_cast<int>(id_bytes_));
    }
    return RoundUp(end, kPageBytes);
  }

  /// Fills `piece` with the bytes of the file from `begin` on.
  absl::Status Fill(uint64_t begin, absl::Span<std::byte> piece) {
    piece_begin_ = begin;
    piece_ = piece;
    std::memset(piece.data(), 0, piece.size());
    cursors_.assign(area_.parts.size(), Cursor());
    HEARTH_RETURN_IF_ERROR(lists_.ForEachWindow(
        area_.first, context_.run.stop, [this](const ListWindow& window) {
          for (size_t i = 0; i < window.size(); ++i) {
            Put(PartOf(window.nodes[i]), window.nodes[i], window.list(i),
                window.ends_here(i));
          }
        }));
    for (PartEntry& part : area_.parts) {
      const absl::Span<const std::byte> bytes =
          Within(part.offset, part.bytes(static_cast<int>(id_bytes_)));
      part.crc32c = Crc32c(bytes, part.crc32c);
    }
    return absl::OkStatus();
  }

 private:
  /// What has been put of a part so far.
  struct Cursor {
    int64_t nodes = 0;
    int64_t neighbors = 0;
  };

  size_t PartOf(NodeId node) const {
    return static_cast<size_t>(labels_.Get(node) - area_.begin);
  }

  // The piece's bytes for a range of the file.
  absl::Span<std::byte> Within(uint64_t offset, uint64_t bytes) const {
    const uint64_t begin = std::max(offset, piece_begin_);
    const uint64_t end = std::min(offset + bytes, piece_begin_ + piece_.size());
    if (begin >= end) return {};
    return piece_.subspan(begin - piece_begin_, end - begin);
  }

  // An id lies within the piece or outside, never across its ends: all arrays
  // and pieces begin at multiples of its size.
  void PutIds(uint64_t offset, absl::Span<const NodeId> ids) {
    const uint64_t skipped =
        offset >= piece_begin_ ? 0 : (piece_begin_ - offset) / id_bytes_;
    const absl::Span<std::byte> to = Within(offset, ids.size() * id_bytes_);
    if (to.empty()) return;
    EncodeIds(ids.data() + skipped, to.size() / id_bytes_,
              static_cast<int>(id_bytes_), to.data());
  }

  void Put(size_t part, NodeId node, absl::Span<const NodeId> list, bool ends) {
    const PartEntry& entry = area_.parts[part];
    Cursor& cursor = cursors_[part];
    const uint64_t nodes =
        entry.offset + static_cast<uint64_t>(entry.nodes) * sizeof(int64_t);
    const uint64_t neighbors =
        nodes + static_cast<uint64_t>(entry.nodes) * id_bytes_;
    PutIds(neighbors + static_cast<uint64_t>(cursor.neighbors) * id_bytes_,
           list);
    cursor.neighbors += static_cast<int64_t>(list.size());
    if (!ends) return;
    const auto index = static_cast<uint64_t>(cursor.nodes++);
    PutIds(nodes + index * id_bytes_, absl::MakeConstSpan(&node, 1));
    const absl::Span<std::byte> to =
        Within(entry.offset + index * sizeof(int64_t), sizeof(int64_t));
    if (!to.empty()) {
      std::memcpy(to.data(), &cursor.neighbors, sizeof(int64_t));
    }
  }

  const PartitionContext& context_;
  const ScatteredLists& lists_;
  const NodeLabels<uint16_t>& labels_;
  const PartArea& area_;
  const uint64_t id_bytes_;
  std::vector<Cursor> cursors_;
  uint64_t piece_begin_ = 0;
  absl::Span<std::byte> piece_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PartListsFile>> PartListsFile::Create(
    io::FileSystem& files, const std::string& path, uint64_t bytes) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.CreateUncached(path));
  HEARTH_RETURN_IF_ERROR(file->Allocate(bytes));
  return std::unique_ptr<PartListsFile>(new PartListsFile(std::move(file)));
}

absl::Status PartListsFile::Write(uint64_t offset,
                                  absl::Span<const std::byte> pages) {
  absl::MutexLock lock(&mutex_);
  return file_->Write(offset, pages);
}

absl::Status PartListsFile::Finish() {
  absl::MutexLock lock(&mutex_);
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

uint64_t AreaWindowBytes(int threads) {
  return RoundUp(kAllWindowsBytes / static_cast<uint64_t>(threads), kPageBytes);
}

uint64_t AreaBytes(int64_t nodes, int64_t neighbors, int parts, int id_bytes) {
  const PartEntry all = {.nodes = nodes, .neighbors = neighbors};
  return RoundUp(
      all.bytes(id_bytes) + static_cast<uint64_t>(parts) * kPartAlignment,
      kPageBytes);
}

absl::StatusOr<uint64_t> WriteArea(const PartitionContext& context,
                                   const ScatteredLists& lists,
                                   const NodeLabels<uint16_t>& labels,
                                   const PartArea& area,
                                   absl::Span<std::byte> window,
                                   PartListsFile& file) {
  AreaWriter writer(context, lists, labels, area);
  const uint64_t end = writer.Arrange();
  for (uint64_t at = area.offset; at < end; at += window.size()) {
    const absl::Span<std::byte> piece =
        window.first(std::min<uint64_t>(window.size(), end - at));
    HEARTH_RETURN_IF_ERROR(writer.Fill(at, piece));
    HEARTH_RETURN_IF_ERROR(file.Write(at, piece));
  }
  return end;
}

}  // namespace hearth::plan
