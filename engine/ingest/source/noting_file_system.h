#ifndef HEARTH_ENGINE_INGEST_SOURCE_NOTING_FILE_SYSTEM_H_
#define HEARTH_ENGINE_INGEST_SOURCE_NOTING_FILE_SYSTEM_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/sha256.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/forwarding_file_system.h"

namespace hearth::ingest {

/// A file system on top of another one that notes which files are opened for
/// reading while it is told to, and how these are: what a source consists of,
/// whatever its format. Thread-safe.
class NotingFileSystem final : public io::ForwardingFileSystem {
 public:
  /// Files in `folder` are not noted. `base` must outlive this.
  NotingFileSystem(io::FileSystem& base, std::string folder)
      : ForwardingFileSystem(base),
        apart_(io::JoinPath(std::move(folder), "")) {}

  void BeginNoting() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndNoting() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Path, size and times of all files that were noted, in one order. A file
  /// that is written to, or replaced by another, has another time of change.
  void AddTo(Sha256& digest) const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForRead(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForScan(
      const std::string& path) override;
  /// The path is noted as it is found just before.
  absl::StatusOr<std::unique_ptr<io::BlockDevice>> OpenBlockDevice(
      const std::string& path, const io::BlockDeviceOptions& options) override;
  absl::StatusOr<std::unique_ptr<io::MappedFile>> Map(
      const std::string& path, io::AccessPattern pattern) override;

 private:
  bool Notes(absl::string_view path) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NotePath(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NoteOpen(io::ReadableFile& file, const std::string& path)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(const std::string& path, const io::FileInfo& info)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The folder's path with a slash behind it.
  const std::string apart_;
  mutable absl::Mutex mutex_;
  bool is_noting_ ABSL_GUARDED_BY(mutex_) = false;
  /// Sizes and times in words, by path.
  std::map<std::string, std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_NOTING_FILE_SYSTEM_H_
