#ifndef HEARTH_ENGINE_IO_FORWARDING_FILE_SYSTEM_H_
#define HEARTH_ENGINE_IO_FORWARDING_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// A file system that leaves everything to another one: the base of those that
/// do only some of it differently. Thread-safe as the other one is.
class ForwardingFileSystem : public FileSystem {
 public:
  /// `base` must outlive this.
  explicit ForwardingFileSystem(FileSystem& base) : base_(base) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) override {
    return base_.OpenForRead(path);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) override {
    return base_.OpenForScan(path);
  }
  absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) override {
    return base_.OpenBlockDevice(path, options);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return base_.Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) override {
    return base_.CreateUncached(path);
  }
  absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) override {
    return base_.Map(path, pattern);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    return base_.Stat(path);
  }
  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    return base_.RealPath(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override {
    return base_.List(directory);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return base_.CreateDirectory(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(from, to);
  }
  absl::Status RemoveTree(const std::string& path) override {
    return base_.RemoveTree(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return base_.SyncDirectory(path);
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return base_.FreeBytes(path);
  }

 protected:
  FileSystem& base() { return base_; }

 private:
  FileSystem& base_;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_FORWARDING_FILE_SYSTEM_H_
