#include "client/transfer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/server_choice.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"

namespace hearth::client {

namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;

// At most `limit` bytes of a file from `offset` on; FAILED_PRECONDITION if the
// file ends at `offset` or before.
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
    std::error_code ignored;  // Add() tells what is wrong.
    if (fs::is_directory(entries->symlink_status(ignored))) continue;
    // Lexical: a link keeps its own name.
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

namespace {

constexpr char kModelName[] = "model.safetensors";
constexpr char kConfigName[] = "config.json";
constexpr char kDigestName[] = "sha256";

// A file descriptor, closed by the destructor.
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  absl::Status Open(const std::string& path, int flags) {
    Close();
    fd_ = open(path.c_str(), flags | O_CLOEXEC, 0666);
    return fd_ < 0 ? ErrnoStatus(errno, path, "open") : absl::OkStatus();
  }
  int get() const { return fd_; }

 private:
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  int fd_ = -1;
};

absl::Status Write(int file, absl::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, path, "write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status Sync(const std::string& path) {
  Descriptor file;
  HEARTH_RETURN_IF_ERROR(file.Open(path, O_RDONLY));
  return fsync(file.get()) == 0 ? absl::OkStatus()
                                : ErrnoStatus(errno, path, "sync");
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0
             ? absl::OkStatus()
             : ErrnoStatus(errno, to, "replace");
}

// Writes and syncs a text file, readable as the umask allows.
absl::Status WriteText(const std::string& path, const std::string& text) {
  Descriptor file;
  HEARTH_RETURN_IF_ERROR(file.Open(path, O_WRONLY | O_CREAT | O_TRUNC));
  HEARTH_RETURN_IF_ERROR(Write(file.get(), text, path));
  return fsync(file.get()) == 0 ? absl::OkStatus()
                                : ErrnoStatus(errno, path, "sync");
}

class PosixModelFolder final : public ModelFolder {
 public:
  PosixModelFolder(std::string path, bool replace,
                   std::function<void(uint64_t, uint64_t)> on_progress)
      : path_(std::move(path)),
        part_(path_ + ".part"),
        replace_(replace),
        on_progress_(std::move(on_progress)) {}

  ~PosixModelFolder() override {
    // Without a digest no later download can go on.
    if (file_.get() < 0 || !sha256_.empty()) return;
    for (const char* name : {kModelName, kConfigName}) {
      unlink(Part(name).c_str());
    }
    rmdir(part_.c_str());
  }

  absl::Status Begin() {
    if (mkdir(part_.c_str(), 0777) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, part_, "create");
    }
    HEARTH_RETURN_IF_ERROR(folder_.Open(part_, O_RDONLY | O_DIRECTORY));
    if (flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(part_, ": another download writes to it"));
    }
    HEARTH_RETURN_IF_ERROR(file_.Open(Part(kModelName), O_RDWR | O_CREAT));
    const absl::StatusOr<std::string> digest = ReadSmallFile(Part(kDigestName));
    if (!digest.ok()) return StartOver();
    sha256_ = *digest;
    return ReadBack();
  }

  v1::DownloadModelRequest Next() override {
    v1::DownloadModelRequest request;
    request.set_offset(size_);
    request.set_sha256(sha256_);
    return request;
  }

  absl::Status Take(const v1::ModelChunk& chunk) override {
    if (chunk.has_model()) return TakeModel(chunk.model());
    HEARTH_RETURN_IF_ERROR(Write(file_.get(), chunk.data(), Part(kModelName)));
    digest_.Update(chunk.data());
    size_ += chunk.data().size();
    on_progress_(size_, total_);
    return absl::OkStatus();
  }

  absl::Status StartOver() override {
    // First the digest: without it the other files count for nothing.
    unlink(Part(kDigestName).c_str());
    sha256_.clear();
    size_ = 0;
    digest_ = Sha256();
    if (ftruncate(file_.get(), 0) != 0 ||
        lseek(file_.get(), 0, SEEK_SET) != 0) {
      return ErrnoStatus(errno, Part(kModelName), "empty");
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (size_ != total_ || digest_.HexDigest() != sha256_) {
      HEARTH_RETURN_IF_ERROR(StartOver());
      return absl::DataLossError(
          absl::StrCat(Part(kModelName),
                       ": what has come does not have the SHA-256 that "
                       "the daemon told; download it again"));
    }
    if (fsync(file_.get()) != 0) {
      const absl::Status status = ErrnoStatus(errno, Part(kModelName), "sync");
      // A failed sync leaves an unknown state on the disk.
      StartOver().IgnoreError();
      return status;
    }
    unlink(Part(kDigestName).c_str());
    HEARTH_RETURN_IF_ERROR(Sync(part_));
    HEARTH_RETURN_IF_ERROR(Place());
    const std::string parent = fs::path(path_).parent_path().string();
    return Sync(parent.empty() ? "." : parent);
  }

 private:
  std::string Part(const char* name) const {
    return absl::StrCat(part_, "/", name);
  }

  // Adds the bytes of an earlier download to the digest.
  absl::Status ReadBack() {
    std::string bytes(kReadBytes, '\0');
    while (true) {
      const ssize_t got = read(file_.get(), bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, Part(kModelName), "read");
      if (got == 0) return absl::OkStatus();
      digest_.Update(absl::string_view(bytes.data(), got));
      size_ += static_cast<uint64_t>(got);
    }
  }

  absl::Status TakeModel(const v1::Model& model) {
    total_ = model.size_bytes();
    if (sha256_.empty()) {
      HEARTH_RETURN_IF_ERROR(WriteText(Part(kConfigName), model.config()));
      HEARTH_RETURN_IF_ERROR(WriteText(Part(kDigestName), model.sha256()));
      sha256_ = model.sha256();
    }
    on_progress_(size_, total_);
    return absl::OkStatus();
  }

  absl::Status Place() {
    if (!replace_ || !fs::exists(path_)) return Rename(part_, path_);
    // Other files in the folder stay.
    for (const char* name : {kModelName, kConfigName}) {
      HEARTH_RETURN_IF_ERROR(
          Rename(Part(name), absl::StrCat(path_, "/", name)));
    }
    HEARTH_RETURN_IF_ERROR(Sync(path_));
    return rmdir(part_.c_str()) == 0 ? absl::OkStatus()
                                     : ErrnoStatus(errno, part_, "remove");
  }

  const std::string path_;
  const std::string part_;
  const bool replace_;
  const std::function<void(uint64_t, uint64_t)> on_progress_;
  // PATH.part, locked.
  Descriptor folder_;
  Descriptor file_;
  // Digest of the model that is downloaded; empty = not known yet.
  std::string sha256_;
  Sha256 digest_;
  uint64_t size_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFolder>> ModelFolder::Open(
    std::string path, bool replace,
    std::function<void(uint64_t done, uint64_t total)> on_progress) {
  // PATH.part must not lie in PATH.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error)) &&
      !(replace && fs::is_directory(path, error))) {
    return absl::AlreadyExistsError(absl::StrCat(
        path, " exists; choose a new folder",
        replace ? "" : ", or replace the model in it with --force"));
  }
  auto folder = std::make_unique<PosixModelFolder>(std::move(path), replace,
                                                   std::move(on_progress));
  HEARTH_RETURN_IF_ERROR(folder->Begin());
  return folder;
}

}  // namespace hearth::client
