#include "engine/store/joined_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace hearth::store {
namespace {

// Stored rows that are read to be converted.
constexpr uint64_t kChunkBytes = 1 << 20;

class JoinedRows final : public io::ReadableFile {
 public:
  JoinedRows(std::vector<RowsOfFile> parts, uint32_t row_bytes)
      : parts_(std::move(parts)),
        row_bytes_(row_bytes),
        path_(parts_.front().file->path()) {
    const io::RowTable& last = parts_.back().table;
    size_bytes_ =
        static_cast<uint64_t>(last.first_row + last.num_rows) * row_bytes_;
    if (parts_.size() > 1) {
      absl::StrAppend(&path_, " and ", parts_.size() - 1, " other files");
    }
  }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", size_bytes_));
    }
    for (const RowsOfFile& part : parts_) {
      const uint64_t end =
          static_cast<uint64_t>(part.table.first_row + part.table.num_rows) *
          row_bytes_;
      if (offset >= end || out.empty()) continue;
      const absl::Span<std::byte> within =
          out.first(std::min<uint64_t>(out.size(), end - offset));
      HEARTH_RETURN_IF_ERROR(ReadPart(part, offset, within));
      offset += within.size();
      out.remove_prefix(within.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, parts_.front().file->Info());
    info.size_bytes = size_bytes_;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  // Fills `out` from `offset`; both lie in the rows of one part.
  absl::Status ReadPart(const RowsOfFile& part, uint64_t offset,
                        absl::Span<std::byte> out) const {
    const io::RowTable& table = part.table;
    if (!table.convert) {
      const uint64_t begin =
          static_cast<uint64_t>(table.first_row) * row_bytes_;
      return part.file->Read(table.first_offset + (offset - begin), out);
    }
    const uint64_t at_once =
        std::max<uint64_t>(1, kChunkBytes / table.row_bytes);
    std::vector<std::byte> stored;
    std::vector<std::byte> row(row_bytes_);
    while (!out.empty()) {
      const uint64_t first = offset / row_bytes_;
      const uint64_t end = (offset + out.size() + row_bytes_ - 1) / row_bytes_;
      const uint64_t count = std::min(at_once, end - first);
      stored.resize(count * table.row_bytes);
      HEARTH_RETURN_IF_ERROR(
          part.file->Read(table.RowOffset(static_cast<int64_t>(first)),
                          absl::MakeSpan(stored)));
      for (uint64_t i = 0; i < count; ++i) {
        table.convert(stored.data() + i * table.row_bytes, row.data());
        // The first row and the last may be asked for in part.
        const uint64_t skipped = offset - (first + i) * row_bytes_;
        const uint64_t taken =
            std::min<uint64_t>(out.size(), row_bytes_ - skipped);
        std::memcpy(out.data(), row.data() + skipped, taken);
        offset += taken;
        out.remove_prefix(taken);
      }
    }
    return absl::OkStatus();
  }

  const std::vector<RowsOfFile> parts_;
  const uint64_t row_bytes_;
  std::string path_;
  uint64_t size_bytes_ = 0;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewJoinedRows(std::vector<RowsOfFile> parts,
                                                uint32_t row_bytes) {
  return std::make_unique<JoinedRows>(std::move(parts), row_bytes);
}

}  // namespace hearth::store
