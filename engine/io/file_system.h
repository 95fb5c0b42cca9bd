#ifndef HEARTH_ENGINE_IO_FILE_SYSTEM_H_
#define HEARTH_ENGINE_IO_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"

/// The seam through which the engine reaches all files, so that tests can make
/// any call fail (testing/faults.h). Errors name the path, and the offset where
/// there is one: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (no space),
/// UNAVAILABLE (EIO), and so on.

namespace hearth::io {

/// State of a file, as stat(2) gives it.
struct FileInfo {
  uint64_t size_bytes = 0;
  absl::Time modified;
  /// Last change of contents or attributes; unlike `modified`, it cannot be
  /// set.
  absl::Time changed;
  bool is_regular = false;
  bool is_directory = false;
  /// Number of the file system that holds the file (st_dev).
  uint64_t file_system = 0;
};

/// A file open for reading. Thread-safe. Closes when destroyed.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  /// Fills `out` with the bytes at `offset`. Short reads are continued, and EIO
  /// is tried again up to 3 times. DATA_LOSS, naming the offset, if the file
  /// ends before `out` is full.
  virtual absl::Status Read(uint64_t offset, absl::Span<std::byte> out) = 0;

  /// State of the open file, whatever its path leads to now.
  virtual absl::StatusOr<FileInfo> Info() = 0;

  /// Path of the file, for messages.
  virtual const std::string& path() const = 0;
};

/// A file being written. Single-owner, except for Write. Destroying it without
/// Close closes the file and drops the error.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  /// Writes all of `data` at the end.
  virtual absl::Status Append(absl::Span<const std::byte> data) = 0;

  /// Writes all of `data` at `offset`. Several threads may call Write at the
  /// same time, for ranges that do not overlap, while no thread calls anything
  /// else.
  virtual absl::Status Write(uint64_t offset,
                             absl::Span<const std::byte> data) = 0;

  /// Reserves space for a file of `size_bytes`, so that a full disk shows now:
  /// RESOURCE_EXHAUSTED names the bytes needed. The file's size stays.
  virtual absl::Status Allocate(uint64_t size_bytes) = 0;

  /// Makes the contents durable. After an error the file takes no more calls: a
  /// second Sync could succeed over lost data.
  virtual absl::Status Sync() = 0;

  virtual absl::Status Close() = 0;
};

/// A file mapped read-only. Thread-safe; unmaps when destroyed.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual absl::Span<const std::byte> data() const = 0;

  /// OK until a page could not be read, because the file was cut or its disk
  /// fails: such a page reads as zeros. Then DATA_LOSS if the file has become
  /// shorter, else UNAVAILABLE, naming file and offset. Ask after reading
  /// data(), before using what was read.
  virtual absl::Status status() const = 0;

  /// Asks the kernel to read the whole file into the page cache, in order and
  /// at the disk's full speed. Waits only for places among the disk's requests,
  /// so that most of a large file has been read on return; a stop ends it
  /// early. Pages that were not read are read when they are used.
  virtual void Prefetch(const std::stop_token& stop) const = 0;
};

/// The order in which a mapping will be read, as advice to the kernel. With
/// kNormal the kernel reads ahead as the disk is set to.
enum class AccessPattern { kNormal, kRandom, kSequential };

/// Files by path. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Opens a regular file; INVALID_ARGUMENT for anything else.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) = 0;

  /// Opens a regular file that is read once, from one end to the other: past
  /// the page cache where the file system and the alignment of offset and
  /// memory to 4 KiB allow, and else dropping from the page cache what was
  /// read.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) = 0;

  /// Opens a regular file for random reads through a ReadQueue: past the page
  /// cache where the file system can.
  virtual absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) = 0;

  /// Creates a file, or empties an existing one.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) = 0;

  /// Creates a file that is written once, from one end to the other, and not
  /// read soon: past the page cache where the file system and the alignment of
  /// offset and memory to 4 KiB allow, and else leaving little in the page
  /// cache.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) = 0;

  /// Opens a file as CreateUncached does, but keeps what an existing one holds:
  /// Append writes behind it.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(
      const std::string& path) = 0;

  virtual absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) = 0;

  /// Follows symbolic links.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;

  /// The absolute path with all symbolic links resolved.
  virtual absl::StatusOr<std::string> RealPath(const std::string& path) = 0;

  /// Names (not paths) in a directory, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;

  /// Creates a directory; OK if it exists.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;

  /// Replaces `to` atomically. Durable after SyncDirectory of its parent.
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;

  /// Removes a file, or a directory with all it holds; OK if it is absent.
  virtual absl::Status RemoveTree(const std::string& path) = 0;

  /// Makes the creation, renaming and removal of a directory's entries durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  /// Bytes that an ordinary user may still write on the file system of `path`.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;

  /// The machine's file system.
  static FileSystem& Posix();
};

/// `directory` + "/" + `name`.
std::string JoinPath(const std::string& directory, const std::string& name);

/// Base of file systems that do some calls differently from another file
/// system: forwards every call to `base`. Thread-safe if `base` is.
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
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(
      const std::string& path) override {
    return base_.OpenForAppend(path);
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

/// File whose bytes are `contents`: for arrays within other data that was read,
/// and for tests and fuzzers of readers of foreign formats.
std::unique_ptr<ReadableFile> NewMemoryFile(std::string contents,
                                            std::string path = "memory");

/// File system in which every path is a file of `contents`, which can be opened
/// for reading; all else is UNIMPLEMENTED.
std::unique_ptr<FileSystem> NewMemoryFileSystem(std::string contents);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_FILE_SYSTEM_H_
