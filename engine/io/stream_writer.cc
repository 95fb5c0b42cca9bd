#include "engine/io/stream_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

namespace hearth::io {

absl::StatusOr<std::unique_ptr<StreamWriter>> StreamWriter::Create(
    FileSystem& files, const std::string& path, uint64_t size_bytes) {
  HEARTH_ASSIGN_OR_RETURN(AlignedMemory buffer,
                          AlignedMemory::Allocate(kBufferBytes));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          files.CreateUncached(path));
  HEARTH_RETURN_IF_ERROR(file->Allocate(size_bytes));
  return std::unique_ptr<StreamWriter>(
      new StreamWriter(std::move(file), std::move(buffer)));
}

absl::Status StreamWriter::Append(absl::Span<const std::byte> bytes) {
  crc_ = Crc32c(bytes, crc_);
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kBufferBytes - filled_);
    std::memcpy(buffer_.bytes().data() + filled_, bytes.data(), count);
    filled_ += count;
    bytes.remove_prefix(count);
    if (filled_ == kBufferBytes) HEARTH_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status StreamWriter::Flush() {
  if (filled_ == 0) return absl::OkStatus();
  const absl::Span<const std::byte> bytes = buffer_.bytes();
  HEARTH_RETURN_IF_ERROR(file_->Append(bytes.first(filled_)));
  filled_ = 0;
  return absl::OkStatus();
}

absl::Status StreamWriter::Finish() {
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

}  // namespace hearth::io
