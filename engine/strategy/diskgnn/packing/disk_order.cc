#include "engine/strategy/diskgnn/packing/disk_order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

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
  // The next run overwrites what is left.
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

}  // namespace hearth::strategy
