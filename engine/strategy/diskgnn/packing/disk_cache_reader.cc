#include "engine/strategy/diskgnn/packing/disk_cache_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

constexpr auto kPage = static_cast<int64_t>(kPageBytes);

class PageReader final : public DiskCacheReader {
 public:
  PageReader(const DiskCache& cache, const PackedLayout& layout,
             std::unique_ptr<io::RowReader> pages)
      : cache_(cache), layout_(layout), pages_(std::move(pages)) {}

  absl::Status Read(int64_t batch, absl::Span<const int64_t> rows,
                    absl::Span<std::byte> out, std::stop_token stop,
                    io::ReadTally& tally) override {
    FindPages(rows);
    numbers_.clear();
    for (const Page& page : wanted_) numbers_.push_back(page.number);
    // Damage on the way is gone at the second reading; damage on disk is not.
    for (int attempt = 0; attempt < 2 && !wanted_.empty(); ++attempt) {
      damaged_.clear();
      HEARTH_RETURN_IF_ERROR(pages_->Read(
          numbers_,
          [&](size_t position, const std::byte* bytes) {
            const Page& page = wanted_[position];
            if (cache_.checksums.Matches({bytes, kPageBytes}, layout_.plan_id,
                                         static_cast<uint64_t>(page.number))) {
              Copy(page, bytes, rows, out);
            } else {
              damaged_.push_back(page);
            }
          },
          stop, tally));
      wanted_.swap(damaged_);
      numbers_.clear();
      for (const Page& page : wanted_) numbers_.push_back(page.number);
    }
    if (wanted_.empty()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(cache_.device->path(), ": batch ", batch,
                     ": the page at byte ", wanted_.front().number * kPage,
                     " is damaged (its checksum does not match)"));
  }

 private:
  struct Page {
    int64_t number;
    // Among the rows asked for, the first that lies on it in part.
    size_t first;
  };

  void FindPages(absl::Span<const int64_t> rows) {
    wanted_.clear();
    const int64_t row_bytes = layout_.row_bytes;
    for (size_t i = 0; i < rows.size(); ++i) {
      int64_t page = rows[i] * row_bytes / kPage;
      const int64_t end = ((rows[i] + 1) * row_bytes + kPage - 1) / kPage;
      if (!wanted_.empty()) page = std::max(page, wanted_.back().number + 1);
      for (; page < end; ++page) wanted_.push_back({page, i});
    }
  }

  // Copies the parts of rows that a page has.
  void Copy(const Page& page, const std::byte* bytes,
            absl::Span<const int64_t> rows, absl::Span<std::byte> out) const {
    const int64_t row_bytes = layout_.row_bytes;
    const int64_t page_begin = page.number * kPage;
    for (size_t i = page.first; i < rows.size(); ++i) {
      const int64_t row_begin = rows[i] * row_bytes;
      if (row_begin >= page_begin + kPage) break;
      const int64_t begin = std::max(row_begin, page_begin);
      const int64_t end = std::min(row_begin + row_bytes, page_begin + kPage);
      std::memcpy(
          out.data() + static_cast<int64_t>(i) * row_bytes + begin - row_begin,
          bytes + begin - page_begin, static_cast<size_t>(end - begin));
    }
  }

  const DiskCache& cache_;
  const PackedLayout& layout_;
  const std::unique_ptr<io::RowReader> pages_;
  std::vector<Page> wanted_;
  std::vector<Page> damaged_;
  std::vector<int64_t> numbers_;
};

}  // namespace

absl::StatusOr<DiskCache> OpenDiskCache(io::FileSystem& files,
                                        const std::string& folder,
                                        const PackedLayout& layout,
                                        const io::BlockDeviceOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<io::BlockDevice> device,
      files.OpenBlockDevice(io::JoinPath(folder, kDiskCacheFile), options));
  HEARTH_ASSIGN_OR_RETURN(
      store::BlockChecksums checksums,
      store::BlockChecksums::Load(
          files, io::JoinPath(folder, kDiskChecksumsFile),
          layout.disk_cache_bytes() / kPageBytes, layout.disk_checksums_crc));
  return DiskCache{std::move(device), std::move(checksums)};
}

absl::StatusOr<std::unique_ptr<DiskCacheReader>> DiskCacheReader::Create(
    const DiskCache& cache, const PackedLayout& layout, io::ReadQueue& queue,
    const io::RowReaderOptions& options) {
  const io::RowLayout pages = {
      .first_offset = 0,
      .row_bytes = static_cast<uint32_t>(kPageBytes),
      .num_rows = static_cast<int64_t>(layout.disk_cache_bytes() / kPageBytes)};
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<io::RowReader> reader,
      io::RowReader::Create(*cache.device, pages, queue, options));
  return std::make_unique<PageReader>(cache, layout, std::move(reader));
}

}  // namespace hearth::strategy
