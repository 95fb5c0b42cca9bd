#include "engine/store/array_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/store/block_checksums.h"
#include "engine/store/scan_array.h"

namespace hearth::store {
namespace {

// A multiple of every block size; large enough for the disk's full speed.
constexpr uint64_t kChunkBytes = 8 << 20;

absl::StatusOr<LoadedArray> ReadVerified(io::FileSystem& files,
                                         const std::string& folder,
                                         const ArrayFile& array,
                                         const std::stop_token& stop) {
  const uint64_t data_bytes = array.file_size_bytes - array.data_offset;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> opened,
                          files.OpenForRead(ArrayPath(folder, array)));
  HEARTH_ASSIGN_OR_RETURN(
      const CheckedFile from,
      WithChecksums(files, folder, array, std::move(opened), stop));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(data_bytes));
  for (uint64_t begin = 0; begin < data_bytes; begin += kChunkBytes) {
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(from.file->path(), ": loading was stopped"));
    }
    const uint64_t size = std::min(kChunkBytes, data_bytes - begin);
    HEARTH_RETURN_IF_ERROR(
        ReadChecked(from, array, begin, memory.bytes().subspan(begin, size)));
  }
  return LoadedArray(std::move(memory));
}

absl::Status Changed(const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": has changed since it was imported (", what, ")"));
}

absl::Status CheckSize(io::FileSystem& files, const std::string& path,
                       uint64_t size_bytes) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(path);
  if (absl::IsNotFound(info.status())) return Changed(path, "it is gone");
  HEARTH_RETURN_IF_ERROR(info.status());
  if (!info->is_regular) return Changed(path, "it is no regular file");
  return CheckArraySize(path, info->size_bytes, size_bytes);
}

absl::Status CheckForeignFile(io::FileSystem& files, const ArrayFile& array) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(array.path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (absl::ToUnixNanos(info.modified) != array.modified_ns) {
    return Changed(array.path, "its modification time is another");
  }
  std::vector<std::byte> header(array.data_offset);
  HEARTH_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(header)));
  if (Crc32c(header) != array.header_crc32c) {
    return Changed(array.path, "its header is another");
  }
  return absl::OkStatus();
}

}  // namespace

LoadedArray::LoadedArray(io::AlignedMemory memory)
    : memory_(std::move(memory)) {}

LoadedArray::LoadedArray(std::unique_ptr<io::MappedFile> mapped,
                         uint64_t data_offset)
    : mapped_(std::move(mapped)), data_offset_(data_offset) {}

absl::Status LoadedArray::status() const {
  return mapped_ != nullptr ? mapped_->status() : absl::OkStatus();
}

void LoadedArray::Prefetch(const std::stop_token& stop) const {
  if (mapped_ != nullptr) mapped_->Prefetch(stop);
}

absl::Span<const std::byte> LoadedArray::bytes() const {
  if (mapped_ != nullptr) return mapped_->data().subspan(data_offset_);
  return memory_.bytes();
}

absl::StatusOr<LoadedArray> LoadArray(io::FileSystem& files,
                                      const std::string& folder,
                                      const ArrayFile& array,
                                      Residency residency,
                                      const std::stop_token& stop) {
  if (residency == Residency::kMemory) {
    return ReadVerified(files, folder, array, stop);
  }
  const std::string path = ArrayPath(folder, array);
  const io::AccessPattern pattern = residency == Residency::kMapped
                                        ? io::AccessPattern::kRandom
                                        : io::AccessPattern::kNormal;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::MappedFile> mapped,
                          files.Map(path, pattern));
  HEARTH_RETURN_IF_ERROR(
      CheckArraySize(path, mapped->data().size(), array.file_size_bytes));
  return LoadedArray(std::move(mapped), array.data_offset);
}

absl::Status CheckArraySize(const std::string& path, uint64_t size_bytes,
                            uint64_t imported_bytes) {
  if (size_bytes == imported_bytes) return absl::OkStatus();
  return Changed(path, absl::StrCat("it has ", size_bytes, " bytes instead of ",
                                    imported_bytes));
}

absl::Status CheckArrayUnchanged(io::FileSystem& files,
                                 const std::string& folder,
                                 const ArrayFile& array) {
  HEARTH_RETURN_IF_ERROR(
      CheckSize(files, ArrayPath(folder, array), array.file_size_bytes));
  const uint64_t data_bytes = array.file_size_bytes - array.data_offset;
  HEARTH_RETURN_IF_ERROR(CheckSize(
      files, io::JoinPath(folder, array.crc_path),
      NumBlocks(data_bytes, array.crc_block_bytes) * sizeof(uint32_t)));
  return array.in_place ? CheckForeignFile(files, array) : absl::OkStatus();
}

}  // namespace hearth::store
