#include "engine/io/memory_file.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/io/memory_device.h"

namespace hearth::io {
namespace {

class MemoryFile final : public ReadableFile {
 public:
  MemoryFile(std::string contents, std::string path)
      : contents_(std::move(contents)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > contents_.size() || out.size() > contents_.size() - offset) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", contents_.size()));
    }
    if (!out.empty()) {
      std::memcpy(out.data(), contents_.data() + offset, out.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FileInfo> Info() override {
    FileInfo info;
    info.size_bytes = contents_.size();
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  const std::string contents_;
  const std::string path_;
};

absl::Status Unimplemented() {
  return absl::UnimplementedError("files in memory are only read");
}

class MemoryFileSystem final : public FileSystem {
 public:
  explicit MemoryFileSystem(std::string contents)
      : contents_(std::move(contents)) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) override {
    return NewMemoryFile(contents_, path);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) override {
    return OpenForRead(path);
  }
  absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) override {
    return NewMemoryDevice(contents_, options.buffered ? 1 : 512, path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) override {
    return Unimplemented();
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    return NewMemoryFile(contents_, path)->Info();
  }
  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    return path;
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override {
    return Unimplemented();
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return Unimplemented();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Unimplemented();
  }
  absl::Status RemoveTree(const std::string& path) override {
    return Unimplemented();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return Unimplemented();
  }

 private:
  const std::string contents_;
};

}  // namespace

std::unique_ptr<ReadableFile> NewMemoryFile(std::string contents,
                                            std::string path) {
  return std::make_unique<MemoryFile>(std::move(contents), std::move(path));
}

std::unique_ptr<FileSystem> NewMemoryFileSystem(std::string contents) {
  return std::make_unique<MemoryFileSystem>(std::move(contents));
}

}  // namespace hearth::io
