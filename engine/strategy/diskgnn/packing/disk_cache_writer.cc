#include "engine/strategy/diskgnn/packing/disk_cache_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/whole_file.h"
#include "engine/store/block_checksums.h"
#include "engine/strategy/packing/file_range.h"

namespace hearth::strategy {

DiskOrder::DiskOrder(io::FileSystem& files, std::string path,
                     std::unique_ptr<io::WritableFile> file)
    : files_(files), path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<DiskOrder>> DiskOrder::Create(
    io::FileSystem& files, std::string path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.Create(path));
  return std::unique_ptr<DiskOrder>(
      new DiskOrder(files, std::move(path), std::move(file)));
}

DiskOrder::~DiskOrder() {
  // A leftover is overwritten by the next run.
  files_.RemoveTree(path_).IgnoreError();
}

absl::Status DiskOrder::Add(absl::Span<const uint32_t> places) {
  const absl::Span<const std::byte> bytes = {
      reinterpret_cast<const std::byte*>(places.data()),
      places.size() * sizeof(uint32_t)};
  HEARTH_RETURN_IF_ERROR(file_->Append(bytes));
  segments_.push_back(
      {.offset = end_, .rows = std::ssize(places), .crc = Crc32c(bytes)});
  end_ += bytes.size();
  return absl::OkStatus();
}

absl::Status DiskOrder::EndAdding() {
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(reader_, files_.OpenForRead(path_));
  return absl::OkStatus();
}

absl::Status DiskOrder::Read(int64_t segment, int64_t first,
                             absl::Span<uint32_t> places) {
  const Segment& whole = segments_[segment];
  const absl::Span<std::byte> bytes = {
      reinterpret_cast<std::byte*>(places.data()),
      places.size() * sizeof(uint32_t)};
  HEARTH_RETURN_IF_ERROR(reader_->Read(
      whole.offset + static_cast<uint64_t>(first) * sizeof(uint32_t), bytes));
  crc_ = Crc32c(bytes, first == 0 ? 0 : crc_);
  if (first + std::ssize(places) < whole.rows || crc_ == whole.crc) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": segment ", segment, " at byte ", whole.offset,
                   " is damaged (its checksum does not match)"));
}

namespace {

constexpr uint64_t kReadBytes = 256 << 10;

// Bytes of rows that are read together.
int64_t BlockRows(int64_t row_bytes) {
  return std::max<int64_t>(1, static_cast<int64_t>(kReadBytes) / row_bytes);
}

}  // namespace

uint64_t DiskCacheWriter::BufferBytes(int64_t row_bytes) {
  return RoundUpToPage(
             static_cast<uint64_t>(BlockRows(row_bytes) * row_bytes)) +
         kPageBytes;
}

absl::StatusOr<uint32_t> DiskCacheWriter::Write(
    io::FileSystem& files, const DiskCacheSource& source,
    const std::string& path, const std::string& checksums_path) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(BufferBytes(layout_.row_bytes)));
  block_ = memory.bytes();
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::StreamWriter> cache,
      io::StreamWriter::Create(files, path, layout_.disk_cache_bytes()));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::BlockChecksumWriter> checksums,
      store::BlockChecksumWriter::Create(files, checksums_path, layout_.plan_id,
                                         static_cast<uint32_t>(kPageBytes)));
  const auto append = [&](absl::Span<const std::byte> bytes) -> absl::Status {
    HEARTH_RETURN_IF_ERROR(checksums->Append(bytes));
    return cache->Append(bytes);
  };
  const auto row_bytes = static_cast<uint64_t>(layout_.row_bytes);
  const auto window_rows = static_cast<int64_t>(window_.size() / row_bytes);
  uint64_t done = 0;
  for (int64_t i = 0; i < source.order.num_segments(); ++i) {
    const int64_t rows = source.order.num_rows(i);
    for (int64_t first = 0; first < rows; first += window_rows) {
      const int64_t count = std::min(window_rows, rows - first);
      HEARTH_RETURN_IF_ERROR(FillWindow(source, i, first, count));
      const uint64_t bytes = static_cast<uint64_t>(count) * row_bytes;
      HEARTH_RETURN_IF_ERROR(append(window_.first(bytes)));
      done += bytes;
      if (progress_) progress_(done, layout_.disk_cache_bytes());
    }
  }
  static constexpr std::array<std::byte, kPageBytes> kZeros = {};
  HEARTH_RETURN_IF_ERROR(append(
      absl::MakeConstSpan(kZeros).first(layout_.disk_cache_bytes() - done)));
  HEARTH_RETURN_IF_ERROR(cache->Finish());
  HEARTH_ASSIGN_OR_RETURN(const auto summary, checksums->Finish());
  return summary.file_crc32c;
}

absl::Status DiskCacheWriter::FillWindow(const DiskCacheSource& source,
                                         int64_t segment, int64_t first,
                                         int64_t count) {
  const CollectedRows& collected = source.segments[segment];
  const int64_t row_bytes = layout_.row_bytes;
  const int64_t rows = source.order.num_rows(segment);
  uint32_t crc = 0;
  for (int64_t at = 0; at < rows; at += std::ssize(places_)) {
    if (stop_.stop_requested()) {
      return absl::CancelledError(
          "ordering the disk cache: stopped on request");
    }
    places_.resize(
        static_cast<size_t>(std::min(BlockRows(row_bytes), rows - at)));
    HEARTH_RETURN_IF_ERROR(
        source.order.Read(segment, at, absl::MakeSpan(places_)));
    const uint64_t begin =
        collected.range.offset + static_cast<uint64_t>(at * row_bytes);
    const uint64_t bytes =
        static_cast<uint64_t>(std::ssize(places_) * row_bytes);
    const uint64_t page = begin / kPageBytes * kPageBytes;
    const absl::Span<std::byte> pages =
        block_.first(RoundUpToPage(begin + bytes) - page);
    HEARTH_RETURN_IF_ERROR(source.rows.Read(page, pages));
    const std::byte* row = pages.data() + (begin - page);
    crc = Crc32c({row, bytes}, crc);
    for (const uint32_t place : places_) {
      if (place >= first && place < first + count) {
        std::memcpy(window_.data() + (place - first) * row_bytes, row,
                    static_cast<size_t>(row_bytes));
      }
      row += row_bytes;
    }
  }
  if (crc == collected.crc) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      source.rows.path(), ": the rows of segment ", segment, " at byte ",
      collected.range.offset, " are damaged (their checksum does not match)"));
}

}  // namespace hearth::strategy
