#include "engine/io/whole_file.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

// Protocol of WritePiecesAtomically: 1. create `path`.tmp, 2. write, 3. sync
// it, 4. close it, 5. rename it to `path`, 6. sync the directory. A crash
// before 5 leaves the old file and a leftover; after 6 the new file is there
// for good.

namespace hearth::io {

namespace {

absl::Status WriteDurably(
    FileSystem& files, const std::string& path,
    absl::Span<const absl::Span<const std::byte>> pieces) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          files.Create(path));
  for (const absl::Span<const std::byte> piece : pieces) {
    HEARTH_RETURN_IF_ERROR(file->Append(piece));
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

absl::Status WritePiecesAtomically(
    FileSystem& files, const std::string& path,
    absl::Span<const absl::Span<const std::byte>> pieces) {
  const std::string temporary = absl::StrCat(path, kTemporarySuffix);
  absl::Status status = WriteDurably(files, temporary, pieces);
  if (status.ok()) status = files.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is returned, not that of removing.
    files.RemoveTree(temporary).IgnoreError();
    return status;
  }
  return files.SyncDirectory(ParentDirectory(path));
}

absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view contents) {
  const auto bytes = absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(contents.data()), contents.size());
  return WritePiecesAtomically(files, path, {bytes});
}

std::string ParentDirectory(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::string> ReadWholeFile(FileSystem& files,
                                          const std::string& path,
                                          uint64_t limit_bytes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (info.size_bytes > limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", info.size_bytes, " bytes; at most ",
                     limit_bytes, " are read"));
  }
  std::string contents(info.size_bytes, '\0');
  HEARTH_RETURN_IF_ERROR(file->Read(
      0, absl::MakeSpan(reinterpret_cast<std::byte*>(contents.data()),
                        contents.size())));
  return contents;
}

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
