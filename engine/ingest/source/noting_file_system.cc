#include "engine/ingest/source/noting_file_system.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {

void NotingFileSystem::BeginNoting() {
  absl::MutexLock lock(&mutex_);
  is_noting_ = true;
}

void NotingFileSystem::EndNoting() {
  absl::MutexLock lock(&mutex_);
  is_noting_ = false;
}

void NotingFileSystem::AddTo(Sha256& digest) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [path, note] : notes_) {
    // With its length, so that no two lists give the same text.
    digest.Update(absl::StrCat(path.size(), " ", path, " ", note, "\n"));
  }
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> NotingFileSystem::OpenForRead(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          base().OpenForRead(path));
  HEARTH_RETURN_IF_ERROR(NoteOpen(*file, path));
  return file;
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> NotingFileSystem::OpenForScan(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          base().OpenForScan(path));
  HEARTH_RETURN_IF_ERROR(NoteOpen(*file, path));
  return file;
}

absl::StatusOr<std::unique_ptr<io::BlockDevice>>
NotingFileSystem::OpenBlockDevice(const std::string& path,
                                  const io::BlockDeviceOptions& options) {
  HEARTH_RETURN_IF_ERROR(NotePath(path));
  return base().OpenBlockDevice(path, options);
}

absl::StatusOr<std::unique_ptr<io::MappedFile>> NotingFileSystem::Map(
    const std::string& path, io::AccessPattern pattern) {
  HEARTH_RETURN_IF_ERROR(NotePath(path));
  return base().Map(path, pattern);
}

bool NotingFileSystem::Notes(absl::string_view path) const {
  absl::MutexLock lock(&mutex_);
  return is_noting_ && !absl::StartsWith(path, apart_);
}

absl::Status NotingFileSystem::NotePath(const std::string& path) {
  if (!Notes(path)) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, base().Stat(path));
  Note(path, info);
  return absl::OkStatus();
}

absl::Status NotingFileSystem::NoteOpen(io::ReadableFile& file,
                                        const std::string& path) {
  if (!Notes(path)) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  Note(path, info);
  return absl::OkStatus();
}

void NotingFileSystem::Note(const std::string& path, const io::FileInfo& info) {
  absl::MutexLock lock(&mutex_);
  notes_[path] =
      absl::StrCat(info.size_bytes, " ", absl::ToUnixNanos(info.modified), " ",
                   absl::ToUnixNanos(info.changed));
}

}  // namespace hearth::ingest
