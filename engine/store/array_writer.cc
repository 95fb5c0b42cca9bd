#include "engine/store/array_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::store {

std::string ArrayPlace::FileName(absl::string_view what) const {
  return absl::StrCat(prefix, ".", what, ".npy");
}

uint64_t FileId(absl::string_view dataset, absl::string_view name) {
  Sha256 digest;
  digest.Update("hearth dataset file");
  // The length of `dataset` is included, so that no two pairs give the same
  // text.
  digest.Update(absl::StrCat(" ", dataset.size(), " ", dataset, " ", name));
  uint64_t id = 0;
  for (const char digit : digest.HexDigest().substr(0, 16)) {
    id = id << 4 |
         static_cast<uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return id;
}

uint64_t StoredBytes(uint64_t data_bytes, const ArrayAccess& layout) {
  // Assumes a header of at most 128 bytes before alignment, which is the usual
  // case.
  const uint64_t header = layout.alignment > 128 ? layout.alignment : 128;
  return header + data_bytes +
         NumBlocks(data_bytes, layout.crc_block_bytes) * sizeof(uint32_t);
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> ArrayWriter::Create(
    io::FileSystem& files, const ArrayPlace& place, absl::string_view what,
    DType dtype, std::vector<int64_t> shape, const ArrayAccess& layout) {
  const std::string name = place.FileName(what);
  auto writer = std::unique_ptr<ArrayWriter>(new ArrayWriter());
  writer->path_ = io::JoinPath(place.folder, name);
  const std::string header = FormatNpyHeader(dtype, shape, layout.alignment);
  const auto header_bytes = absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(header.data()), header.size());
  const auto data_bytes = ArrayBytes(shape, SizeOf(dtype));
  if (!data_bytes.has_value()) {
    return absl::InternalError(absl::StrCat(
        writer->path_, ": no array has shape ", FormatShape(shape)));
  }
  ArrayFile& entry = writer->entry_;
  entry.path = name;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  entry.data_offset = header.size();
  entry.file_size_bytes = header.size() + static_cast<uint64_t>(*data_bytes);
  entry.header_crc32c = Crc32c(header_bytes);
  entry.file_id = FileId(place.dataset, name);
  entry.crc_block_bytes = layout.crc_block_bytes;
  entry.crc_path = absl::StrCat(name, kChecksumSuffix);
  HEARTH_ASSIGN_OR_RETURN(writer->file_,
                          layout.uncached ? files.CreateUncached(writer->path_)
                                          : files.Create(writer->path_));
  HEARTH_RETURN_IF_ERROR(writer->file_->Allocate(entry.file_size_bytes));
  HEARTH_RETURN_IF_ERROR(writer->file_->Append(header_bytes));
  HEARTH_ASSIGN_OR_RETURN(writer->checksums_,
                          BlockChecksumWriter::Create(
                              files, io::JoinPath(place.folder, entry.crc_path),
                              entry.file_id, entry.crc_block_bytes));
  return writer;
}

absl::Status ArrayWriter::Append(absl::Span<const std::byte> data) {
  HEARTH_RETURN_IF_ERROR(checksums_->Append(data));
  HEARTH_RETURN_IF_ERROR(file_->Append(data));
  written_ += data.size();
  return absl::OkStatus();
}

absl::StatusOr<FinishedArray> ArrayWriter::Finish() {
  if (entry_.data_offset + written_ != entry_.file_size_bytes) {
    return absl::InternalError(
        absl::StrCat(path_, ": got ", written_, " bytes of data instead of ",
                     entry_.file_size_bytes - entry_.data_offset));
  }
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(const BlockChecksumWriter::Summary summary,
                          checksums_->Finish());
  entry_.crc_file_crc32c = summary.file_crc32c;
  return FinishedArray{std::move(entry_), summary.sha256};
}

}  // namespace hearth::store
