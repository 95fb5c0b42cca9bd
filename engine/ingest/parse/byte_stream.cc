#include "engine/ingest/parse/byte_stream.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

class FileStream final : public ByteStream {
 public:
  FileStream(std::unique_ptr<io::ReadableFile> file, uint64_t size_bytes)
      : file_(std::move(file)), size_bytes_(size_bytes) {}

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(status_);
    const size_t count = std::min<uint64_t>(out.size(), size_bytes_ - offset_);
    status_ = file_->Read(offset_, out.first(count));
    HEARTH_RETURN_IF_ERROR(status_);
    offset_ += count;
    return count;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t size_bytes_;
  uint64_t offset_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> NewFileStream(
    std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  return std::make_unique<FileStream>(std::move(file), info.size_bytes);
}

}  // namespace hearth::ingest
