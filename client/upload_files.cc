#include "client/upload_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;

// At most `limit` bytes of a file from `offset` on; FAILED_PRECONDITION if it
// ends before.
absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                     size_t limit) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return ErrnoStatus(errno, path, "open");
  const absl::Cleanup closer = [file] { close(file); };
  std::string bytes(limit, '\0');
  while (true) {
    const ssize_t got =
        pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path, "read");
    if (got == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": has become shorter since the upload began"));
    }
    bytes.resize(static_cast<size_t>(got));
    return bytes;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<UploadFiles>> UploadFiles::Find(
    const std::string& source, const Progress& on_progress,
    const std::stop_token& stop) {
  std::unique_ptr<UploadFiles> files(new UploadFiles());
  std::error_code error;
  if (fs::is_directory(source, error)) {
    HEARTH_RETURN_IF_ERROR(files->AddFolder(source));
  } else {
    HEARTH_RETURN_IF_ERROR(
        files->Add(source, fs::path(source).filename().string()));
    files->request_.set_is_file(true);
  }
  HEARTH_RETURN_IF_ERROR(files->Digest(on_progress, stop));
  return files;
}

absl::Status UploadFiles::AddFolder(const std::string& folder) {
  std::error_code error;
  std::map<std::string, std::string> found;
  fs::recursive_directory_iterator entries(folder, error);
  for (; !error && entries != fs::recursive_directory_iterator();
       entries.increment(error)) {
    const fs::path& path = entries->path();
    std::error_code unknown;  // Then it is for Add to say what is wrong.
    if (fs::is_directory(entries->symlink_status(unknown))) continue;
    // By its name alone: a link is not where it leads to.
    found[path.lexically_relative(folder).generic_string()] = path.string();
  }
  if (error) return ErrnoStatus(error.value(), folder, "read");
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": has no files"));
  }
  for (const auto& [name, path] : found) {
    HEARTH_RETURN_IF_ERROR(Add(path, name));
  }
  return absl::OkStatus();
}

absl::Status UploadFiles::Add(const std::string& path,
                              const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": is not there"));
  }
  if (!fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is neither a file nor a folder itself"));
  }
  const uint64_t size = fs::file_size(path, error);
  if (error) return ErrnoStatus(error.value(), path, "stat");
  v1::UploadFile& file = *request_.add_files();
  file.set_path(name);
  file.set_size_bytes(size);
  files_.push_back({.path = path, .begin = size_, .end = size_ + size});
  size_ += size;
  return absl::OkStatus();
}

absl::Status UploadFiles::Digest(const Progress& on_progress,
                                 const std::stop_token& stop) {
  for (size_t i = 0; i < files_.size(); ++i) {
    Sha256 digest;
    for (uint64_t at = files_[i].begin; at < files_[i].end;) {
      if (stop.stop_requested()) {
        return absl::CancelledError("the transfer was stopped");
      }
      const size_t limit = std::min<uint64_t>(kReadBytes, files_[i].end - at);
      HEARTH_ASSIGN_OR_RETURN(
          const std::string bytes,
          ReadPart(files_[i].path, at - files_[i].begin, limit));
      digest.Update(bytes);
      at += bytes.size();
      on_progress(at, size_);
    }
    request_.mutable_files(static_cast<int>(i))->set_sha256(digest.HexDigest());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UploadFiles::Read(uint64_t offset, size_t limit) {
  const auto file = std::find_if(
      files_.begin(), files_.end(),
      [offset](const File& candidate) { return offset < candidate.end; });
  if (file == files_.end()) return std::string();
  return ReadPart(file->path, offset - file->begin,
                  std::min<uint64_t>(limit, file->end - offset));
}

void UploadFiles::OnSent(uint64_t offset) {
  if (on_sent_ != nullptr) on_sent_(offset, size_);
}

}  // namespace hearth::client
