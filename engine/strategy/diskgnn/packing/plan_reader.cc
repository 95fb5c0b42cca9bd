#include "engine/strategy/diskgnn/packing/plan_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/plan/plan_records.h"
#include "engine/strategy/packing/batch_code.h"
#include "engine/strategy/packing/file_range.h"

// All numbers are little-endian, like the machines that Hearth runs on.

namespace hearth::strategy {

namespace {

constexpr char kIndexMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'P', 'I'};
constexpr char kChunkMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'P', 'C'};
// The version of the index and of all files of the plan.
constexpr uint32_t kVersion = 1;
// A larger index is taken as damaged.
constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 30;

struct IndexHeader {
  char magic[8];
  uint32_t version;
  // The CRC32C of all other fields and of the chunks.
  uint32_t crc;
  uint64_t plan_id;
  int64_t row_bytes;
  int64_t segment_size;
  LevelSizes rows;
  uint32_t gpu_crc;
  uint32_t cpu_crc;
  uint32_t disk_checksums_crc;
  uint32_t num_batches;
};
static_assert(sizeof(IndexHeader) == kIndexHeaderBytes);
static_assert(std::is_trivially_copyable_v<IndexHeader>);

struct ChunkHeader {
  char magic[8];
  uint64_t plan_id;
  int64_t batch;
  uint64_t sample_bytes;
  uint64_t table_bytes;
  uint64_t features_bytes;
  int64_t row_bytes;
  uint32_t version;
  // The CRC32C of the fields above.
  uint32_t crc;
};
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes);
static_assert(std::is_trivially_copyable_v<ChunkHeader>);

template <typename T>
absl::Span<const std::byte> BytesOf(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
}

uint32_t IndexCrc(IndexHeader header, absl::Span<const std::byte> chunks) {
  header.crc = 0;
  return Crc32c(chunks, Crc32c(BytesOf(header)));
}

IndexHeader HeaderOf(const PackedLayout& layout) {
  IndexHeader header = {};
  std::memcpy(header.magic, kIndexMagic, sizeof(kIndexMagic));
  header.version = kVersion;
  header.plan_id = layout.plan_id;
  header.row_bytes = layout.row_bytes;
  header.segment_size = layout.segment_size;
  header.rows = layout.rows;
  header.gpu_crc = layout.gpu_crc;
  header.cpu_crc = layout.cpu_crc;
  header.disk_checksums_crc = layout.disk_checksums_crc;
  header.num_batches = static_cast<uint32_t>(layout.num_batches());
  return header;
}

absl::StatusOr<PackedLayout> Decode(const std::string& path,
                                    absl::Span<const std::byte> bytes) {
  IndexHeader header;
  const auto damaged = [&](absl::string_view problem) {
    return absl::DataLossError(absl::StrCat(path, ": ", problem));
  };
  if (bytes.size() < sizeof(header)) return damaged("is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (std::memcmp(header.magic, kIndexMagic, sizeof(kIndexMagic)) != 0) {
    return damaged("is no index of a plan");
  }
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has format version ", header.version,
                     "; this version of Hearth reads ", kVersion));
  }
  if (bytes.size() != header.num_batches * sizeof(Chunk) ||
      header.crc != IndexCrc(header, bytes)) {
    return damaged("is damaged (its checksum does not match)");
  }
  PackedLayout layout;
  layout.plan_id = header.plan_id;
  layout.row_bytes = header.row_bytes;
  layout.segment_size = header.segment_size;
  layout.rows = header.rows;
  layout.gpu_crc = header.gpu_crc;
  layout.cpu_crc = header.cpu_crc;
  layout.disk_checksums_crc = header.disk_checksums_crc;
  layout.chunks.resize(header.num_batches);
  if (!bytes.empty()) {
    std::memcpy(layout.chunks.data(), bytes.data(), bytes.size());
  }
  return layout;
}

absl::Status CheckSizes(io::FileSystem& files, const std::string& folder,
                        const PackedLayout& layout) {
  const std::pair<const char*, uint64_t> expected[] = {
      {kPacksFile, layout.packs_bytes()},
      {kDiskCacheFile, layout.disk_cache_bytes()},
      {kDiskChecksumsFile, layout.disk_checksums_bytes()},
      {kGpuCacheFile, layout.gpu_cache_bytes()},
      {kCpuCacheFile, layout.cpu_cache_bytes()}};
  return plan::CheckFileSizes(files, folder, expected);
}

ChunkHeader ChunkHeaderOf(const PackedLayout& layout, int64_t batch,
                          int64_t first_batch = 0) {
  ChunkHeader header = {};
  std::memcpy(header.magic, kChunkMagic, sizeof(kChunkMagic));
  header.plan_id = layout.plan_id;
  header.batch = first_batch + batch;
  header.sample_bytes = layout.chunks[batch].sample_bytes;
  header.table_bytes = layout.TableRange(batch).bytes;
  header.features_bytes = layout.FeaturesRange(batch).bytes;
  header.row_bytes = layout.row_bytes;
  header.version = kVersion;
  header.crc = Crc32c(BytesOf(header).first(offsetof(ChunkHeader, crc)));
  return header;
}

}  // namespace

absl::Status WriteLayoutIndex(io::FileSystem& files, const std::string& folder,
                              const PackedLayout& layout) {
  IndexHeader header = HeaderOf(layout);
  const absl::Span<const std::byte> chunks = {
      reinterpret_cast<const std::byte*>(layout.chunks.data()),
      layout.chunks.size() * sizeof(Chunk)};
  header.crc = IndexCrc(header, chunks);
  return io::WritePiecesAtomically(files, io::JoinPath(folder, kIndexFile),
                                   {BytesOf(header), chunks});
}

absl::StatusOr<PackedLayout> ReadIndexAlone(io::FileSystem& files,
                                            const std::string& folder,
                                            uint64_t plan_id) {
  const std::string path = io::JoinPath(folder, kIndexFile);
  absl::StatusOr<PackedLayout> layout = absl::UnknownError("not read");
  // A second read heals damage in transit; damage on disk stays.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_ASSIGN_OR_RETURN(const std::string index,
                            io::ReadWholeFile(files, path, kMaxIndexBytes));
    layout = Decode(
        path, {reinterpret_cast<const std::byte*>(index.data()), index.size()});
    if (layout.ok()) break;
  }
  HEARTH_RETURN_IF_ERROR(layout.status());
  if (layout->plan_id != plan_id) {
    return absl::DataLossError(absl::StrCat(
        path, ": belongs to plan ", layout->plan_id, ", not to ", plan_id));
  }
  return layout;
}

absl::StatusOr<PackedLayout> ReadLayoutIndex(io::FileSystem& files,
                                             const std::string& folder,
                                             uint64_t plan_id) {
  HEARTH_ASSIGN_OR_RETURN(PackedLayout layout,
                          ReadIndexAlone(files, folder, plan_id));
  HEARTH_RETURN_IF_ERROR(CheckSizes(files, folder, layout));
  return layout;
}

void WriteChunkHeader(const PackedLayout& layout, int64_t batch, std::byte* to,
                      int64_t first_batch) {
  const ChunkHeader header = ChunkHeaderOf(layout, batch, first_batch);
  std::memcpy(to, &header, sizeof(header));
}

bool IsChunkHeader(const PackedLayout& layout, int64_t batch,
                   absl::Span<const std::byte> bytes) {
  const ChunkHeader header = ChunkHeaderOf(layout, batch);
  return bytes.size() >= sizeof(header) &&
         std::memcmp(bytes.data(), &header, sizeof(header)) == 0;
}

namespace {

constexpr uint64_t kReadBytes = 4 << 20;

// Reads `bytes` of a file in parts, each into place(offset), and gives each
// part to `take`.
struct Parts {
  uint64_t bytes = 0;
  std::function<std::byte*(uint64_t)> place;
  TakeImagePart take;
};

absl::Status ReadImage(io::FileSystem& files, const RowImage& image,
                       const Parts& parts, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(image.path));
  for (int attempt = 0; attempt < 2; ++attempt) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < image.bytes; at += parts.bytes) {
      if (stop.stop_requested()) {
        return absl::CancelledError(
            absl::StrCat(image.path, ": loading stopped on request"));
      }
      const absl::Span<std::byte> part(parts.place(at),
                                       std::min(parts.bytes, image.bytes - at));
      HEARTH_RETURN_IF_ERROR(file->Read(at, part));
      crc = Crc32c(part, crc);
      HEARTH_RETURN_IF_ERROR(parts.take(at, part));
    }
    if (crc == image.crc) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(image.path, ": is damaged (its checksum does not match)"));
}

}  // namespace

absl::Status LoadRowImage(io::FileSystem& files, const RowImage& image,
                          absl::Span<std::byte> out,
                          const std::stop_token& stop) {
  return ReadImage(
      files, image,
      {.bytes = kReadBytes,
       .place = [&](uint64_t at) { return out.data() + at; },
       .take = [](uint64_t,
                  absl::Span<const std::byte>) { return absl::OkStatus(); }},
      stop);
}

absl::Status StreamRowImage(io::FileSystem& files, const RowImage& image,
                            absl::Span<std::byte> buffer,
                            const TakeImagePart& take,
                            const std::stop_token& stop) {
  return ReadImage(files, image,
                   {.bytes = buffer.size(),
                    .place = [&](uint64_t) { return buffer.data(); },
                    .take = take},
                   stop);
}

ChunkReader::ChunkReader(std::unique_ptr<io::ReadableFile> file,
                         const PackedLayout& layout)
    : file_(std::move(file)), layout_(layout) {
  for (int64_t batch = 0; batch < layout.num_batches(); ++batch) {
    sample_buffer_bytes_ = std::max(
        sample_buffer_bytes_, RoundUpToPage(layout.SampleRange(batch).bytes));
    features_buffer_bytes_ =
        std::max(features_buffer_bytes_, layout.FeaturesRange(batch).end() -
                                             layout.TableRange(batch).offset);
  }
}

absl::StatusOr<std::unique_ptr<ChunkReader>> ChunkReader::Open(
    io::FileSystem& files, const std::string& folder,
    const PackedLayout& layout) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(io::JoinPath(folder, kPacksFile)));
  return std::unique_ptr<ChunkReader>(new ChunkReader(std::move(file), layout));
}

absl::Status ChunkReader::Damaged(int64_t batch, uint64_t offset,
                                  const char* what) const {
  return absl::DataLossError(absl::StrCat(file_->path(), ": batch ", batch,
                                          ": the ", what, " at byte ", offset,
                                          " is damaged (its checksum does not "
                                          "match)"));
}

absl::StatusOr<sample::MiniBatch> ChunkReader::ReadSample(
    int64_t batch, const sample::BatchKey& key,
    absl::Span<std::byte> buffer) const {
  const FileRange range = layout_.SampleRange(batch);
  const absl::Span<std::byte> pages = buffer.first(range.end() - range.offset);
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(range.offset, pages));
    absl::Span<const std::byte> bytes = pages.first(range.bytes);
    if (Crc32c(bytes) != layout_.chunks[batch].sample_crc ||
        !IsChunkHeader(layout_, batch, bytes)) {
      continue;
    }
    bytes.remove_prefix(kChunkHeaderBytes);
    absl::StatusOr<sample::MiniBatch> sample = DecodeBatch(bytes, key);
    if (sample.ok()) return sample;
    return Annotate(sample.status(),
                    absl::StrCat(file_->path(), ": batch ", batch, " at byte ",
                                 range.offset));
  }
  return Damaged(batch, range.offset, "graph sample");
}

absl::StatusOr<absl::Span<const std::byte>> ChunkReader::ReadFeatures(
    int64_t batch, absl::Span<std::byte> buffer, AddressTable& table) const {
  const Chunk& chunk = layout_.chunks[batch];
  const FileRange table_range = layout_.TableRange(batch);
  const FileRange features_range = layout_.FeaturesRange(batch);
  const absl::Span<std::byte> pages =
      buffer.first(features_range.end() - table_range.offset);
  const absl::Span<const std::byte> table_bytes =
      pages.first(table_range.bytes);
  const absl::Span<const std::byte> features = pages.subspan(
      features_range.offset - table_range.offset, features_range.bytes);
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(table_range.offset, pages));
    if (Crc32c(table_bytes) != chunk.table_crc) {
      status = Damaged(batch, table_range.offset, "address table");
    } else if (Crc32c(features) != chunk.features_crc) {
      status = Damaged(batch, features_range.offset, "pack of rows");
    } else {
      status =
          Annotate(DecodeTable(table_bytes, chunk.counts, layout_.rows, table),
                   absl::StrCat(file_->path(), ": batch ", batch));
      break;
    }
  }
  HEARTH_RETURN_IF_ERROR(status);
  return features;
}

absl::Status ChunkReader::ReadTable(int64_t batch, absl::Span<std::byte> buffer,
                                    AddressTable& table) const {
  const Chunk& chunk = layout_.chunks[batch];
  const FileRange range = layout_.TableRange(batch);
  const absl::Span<std::byte> pages = buffer.first(range.end() - range.offset);
  const absl::Span<const std::byte> bytes = pages.first(range.bytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(range.offset, pages));
    if (Crc32c(bytes) != chunk.table_crc) continue;
    return Annotate(DecodeTable(bytes, chunk.counts, layout_.rows, table),
                    absl::StrCat(file_->path(), ": batch ", batch));
  }
  return Damaged(batch, range.offset, "address table");
}

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
    // A second read heals damage in transit; damage on disk stays.
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
    // The first of the wanted rows that lies on the page, at least in part.
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

  // Copies the parts of rows that lie on a page.
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
