#include "engine/plan/partition/part_lists_file.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/crc32c.h"
#include "engine/base/round_up.h"
#include "engine/base/status_macros.h"
#include "engine/plan/partition/list_window.h"
#include "engine/plan/partition/node_ids.h"

namespace hearth::plan {
namespace {

using store::NodeId;

constexpr uint64_t kPageBytes = 4096;
// The windows of all threads together.
constexpr uint64_t kAllWindowsBytes = 128 << 20;

/// Writes one area.
class AreaWriter {
 public:
  AreaWriter(const PartitionContext& context, const ScatteredLists& lists,
             const NodeLabels<uint16_t>& labels, const PartArea& area)
      : context_(context),
        lists_(lists),
        labels_(labels),
        area_(area),
        id_bytes_(static_cast<uint64_t>(context.id_bytes())) {}

  /// Fills in the places of the parts; the end of the last.
  uint64_t Arrange() {
    uint64_t end = area_.offset;
    for (PartEntry& part : area_.parts) {
      part.offset = RoundUp(end, kPartAlignment);
      end = part.offset + part.bytes(static_cast<int>(id_bytes_));
    }
    return RoundUp(end, kPageBytes);
  }

  /// Puts the bytes of the file from `begin` on into `piece`.
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
  /// Progress of a part.
  struct Cursor {
    int64_t nodes = 0;
    int64_t neighbors = 0;
  };

  size_t PartOf(NodeId node) const {
    return static_cast<size_t>(labels_.Get(node) - area_.begin);
  }

  // The bytes of a range of the file that are in the piece.
  absl::Span<std::byte> Within(uint64_t offset, uint64_t bytes) const {
    const uint64_t begin = std::max(offset, piece_begin_);
    const uint64_t end = std::min(offset + bytes, piece_begin_ + piece_.size());
    if (begin >= end) return {};
    return piece_.subspan(begin - piece_begin_, end - begin);
  }

  // Nothing of it is there that is not whole: all begins at multiples of its
  // size, and so does the piece.
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
