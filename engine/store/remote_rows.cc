#include "engine/store/remote_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engine/base/status.h"

namespace hearth::store {

namespace {

class ShardedRows final : public io::ReadableFile {
 public:
  ShardedRows(const ArrayFile& array, std::unique_ptr<io::ReadableFile> here,
              std::unique_ptr<RemoteRows::Reader> elsewhere,
              const RowSet& wanted, int64_t first_row)
      : offset_(array.data_offset),
        kept_(array.KeptBytes()),
        row_bytes_(
            static_cast<uint64_t>(RowBytes(array.shape[1], array.dtype))),
        here_(std::move(here)),
        elsewhere_(std::move(elsewhere)),
        wanted_(wanted),
        first_row_(first_row) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const uint64_t places[] = {offset_, offset_ + kept_.begin,
                               offset_ + kept_.end, UINT64_MAX};
    // The header, what lies before the kept bytes, those, and what is behind.
    for (size_t part = 0; !out.empty(); ++part) {
      if (offset >= places[part]) continue;
      const absl::Span<std::byte> within =
          out.first(std::min<uint64_t>(out.size(), places[part] - offset));
      HEARTH_RETURN_IF_ERROR(part % 2 == 0 ? here_->Read(offset, within)
                                           : Fetch(offset - offset_, within));
      offset += within.size();
      out.remove_prefix(within.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override { return here_->Info(); }
  const std::string& path() const override { return here_->path(); }

 private:
  // Fills `out` with the data's bytes from `begin` on, as far as they are of
  // wanted rows.
  absl::Status Fetch(uint64_t begin, absl::Span<std::byte> out) {
    const uint64_t end = begin + out.size();
    runs_.clear();
    int64_t count = 0;
    const auto last = static_cast<int64_t>((end + row_bytes_ - 1) / row_bytes_);
    for (auto row = static_cast<int64_t>(begin / row_bytes_); row < last;
         ++row) {
      if (!wanted_.Has(first_row_ + row)) continue;
      if (runs_.empty() || runs_.back().first + runs_.back().count != row) {
        runs_.push_back({.first = row});
      }
      ++runs_.back().count;
      ++count;
    }
    // NaN, so that a row that should have been wanted is seen.
    std::memset(out.data(), 0xff, out.size());
    if (count == 0) return absl::OkStatus();
    rows_.resize(static_cast<size_t>(count) * row_bytes_);
    HEARTH_RETURN_IF_ERROR(elsewhere_->Read(runs_, absl::MakeSpan(rows_)));
    // The first row and the last may be asked for in part.
    const std::byte* from = rows_.data();
    for (const RowRun& run : runs_) {
      const uint64_t first = static_cast<uint64_t>(run.first) * row_bytes_;
      const uint64_t bytes = static_cast<uint64_t>(run.count) * row_bytes_;
      const uint64_t copied = std::max(first, begin);
      std::memcpy(out.data() + (copied - begin), from + (copied - first),
                  std::min(first + bytes, end) - copied);
      from += bytes;
    }
    return absl::OkStatus();
  }

  const uint64_t offset_;
  const ByteRange kept_;
  const uint64_t row_bytes_;
  const std::unique_ptr<io::ReadableFile> here_;
  const std::unique_ptr<RemoteRows::Reader> elsewhere_;
  const RowSet& wanted_;
  const int64_t first_row_;
  std::vector<RowRun> runs_;
  std::vector<std::byte> rows_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewShardedRows(
    const ArrayFile& array, std::unique_ptr<io::ReadableFile> here,
    std::unique_ptr<RemoteRows::Reader> elsewhere, const RowSet& wanted,
    int64_t first_row) {
  return std::make_unique<ShardedRows>(array, std::move(here),
                                       std::move(elsewhere), wanted, first_row);
}

}  // namespace hearth::store
