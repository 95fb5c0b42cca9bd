#include "engine/ingest/import/scratch_array.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

/// A file under the name of another.
class NamedFile final : public io::ReadableFile {
 public:
  NamedFile(std::unique_ptr<io::ReadableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    return file_->Read(offset, out);
  }
  absl::StatusOr<io::FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return path_; }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchArray>> ScratchArray::Create(
    ImportContext& context, store::ElementType type, std::string source) {
  HEARTH_ASSIGN_OR_RETURN(std::string path, context.NewScratchPath("array"));
  auto array = std::unique_ptr<ScratchArray>(new ScratchArray(
      context.files(), std::move(path), type, std::move(source)));
  HEARTH_ASSIGN_OR_RETURN(array->file_, array->files_.Create(array->path_));
  return array;
}

absl::Status ScratchArray::Append(absl::Span<const std::byte> elements) {
  buffer_.insert(buffer_.end(), elements.begin(), elements.end());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status ScratchArray::Flush() {
  HEARTH_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ScratchArray::Finish(
    std::vector<int64_t> shape) {
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files_.OpenForRead(path_));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const auto bytes = store::ArrayBytes(shape, type_.item_bytes);
  if (!bytes.has_value() || static_cast<uint64_t>(*bytes) != info.size_bytes) {
    return absl::InternalError(absl::StrCat(
        path_, ": ", info.size_bytes, " bytes are no ", Name(type_),
        " array of shape ", store::FormatShape(shape)));
  }
  return ArrayReader::ReadRaw(
      std::make_unique<NamedFile>(std::move(file), source_),
      {.type = type_, .shape = std::move(shape)});
}

}  // namespace hearth::ingest
