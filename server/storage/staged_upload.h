#ifndef HEARTH_SERVER_STORAGE_STAGED_UPLOAD_H_
#define HEARTH_SERVER_STORAGE_STAGED_UPLOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "hearth/v1/datasets.pb.h"

namespace hearth::server {

/// OK if the files that a request announces can be kept: INVALID_ARGUMENT names
/// the field at fault, such as a path that leaves its folder.
absl::Status CheckUploadRequest(const v1::BeginUploadRequest& request);

/// The files of one upload, as far as they have come. In its folder:
///
///   upload         owner and request, sealed with a SHA-256
///   source/PATH    files that are whole and have their digests
///   incoming       the file that is coming
///   incoming.tmp   its copy, while CatchUp makes it
///
/// Bytes that Append has taken survive a kill of the daemon; files that
/// FinishFile has put below source survive a power loss. Thread-safe.
class StagedUpload {
 public:
  /// The files and clock must outlive it.
  struct Parts {
    io::FileSystem& files;
    const Clock& clock;
    std::string folder;
  };

  /// Begins an upload in a new folder, durably. REQUIRES: a request that
  /// CheckUploadRequest lets through.
  static absl::StatusOr<std::unique_ptr<StagedUpload>> Make(
      const Parts& parts, const std::string& owner,
      const v1::BeginUploadRequest& request);

  /// Goes on with one that an earlier daemon made. DATA_LOSS if it is not
  /// whole.
  static absl::StatusOr<std::unique_ptr<StagedUpload>> Load(const Parts& parts);

  /// Makes the file that is coming ready for Append, by a step of 4 MiB at
  /// most; false: there is more to do. After a start of the daemon what came
  /// before is copied and its digest begun again.
  absl::StatusOr<bool> CatchUp() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes the next bytes, up to the end of the file that is coming; returns
  /// how many. OUT_OF_RANGE unless they begin at received_bytes() and end with
  /// the upload. After any error what was received stays, and Append can be
  /// called again. REQUIRES: CatchUp was true.
  absl::StatusOr<size_t> Append(uint64_t offset,
                                absl::Span<const std::byte> data)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether all bytes of the file that is coming are there: Append takes none
  /// before FinishFile has ended.
  bool IsFileFull() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Puts a file that is full in its place, durably, and makes the next one
  /// ready for Append. It takes as long as the disk's syncs do; no other call
  /// but this waits for it. ABORTED if the file does not have its digest: it
  /// has to come again, as where it cannot be synced. After other errors
  /// FinishFile can be called again. Nothing happens if no file is full.
  absl::Status FinishFile() ABSL_LOCKS_EXCLUDED(finishing_, mutex_);

  /// Something uses it: it is not abandoned.
  void Touch();

  const std::string& owner() const { return owner_; }
  const v1::BeginUploadRequest& request() const { return request_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t received_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Whether all files are there.
  bool IsWhole() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// The folder, or the one file, to import.
  std::string SourcePath() const;
  /// When something has come last, on the steady clock. Never blocks.
  double last_progress() const { return last_progress_; }

 private:
  // A copy of what came before the daemon's start.
  struct Copy {
    std::unique_ptr<io::ReadableFile> from;
    std::unique_ptr<io::WritableFile> to;
    uint64_t bytes = 0;
  };

  StagedUpload(const Parts& parts, std::string owner,
               v1::BeginUploadRequest request);

  std::string IncomingPath() const;
  // Finds out, from the files, what is there. Nothing changes after an error.
  absl::Status FindReceived() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Finds out, from the files, when something has come last.
  absl::Status FindProgress();
  const v1::UploadFile& current() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return request_.files(file_);
  }
  bool IsWholeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return file_ == request_.files_size();
  }
  bool IsFileFullLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> CopyStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes an empty file for the bytes to come.
  absl::Status OpenIncoming() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Renames `incoming` to its place, and syncs the folders on the way to it.
  absl::Status Place(const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(finishing_);
  // Begins the next file, once the one before is in its place.
  absl::Status OpenNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(finishing_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets what has come of the current file.
  void DropFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(finishing_)
      ABSL_LOCKS_EXCLUDED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const std::string folder_;
  const std::string owner_;
  const v1::BeginUploadRequest request_;
  uint64_t size_bytes_ = 0;
  // Held while a file is finished.
  absl::Mutex finishing_ ABSL_ACQUIRED_BEFORE(mutex_);
  // Held for no sync.
  mutable absl::Mutex mutex_;
  // The file is FinishFile's, which alone changes what follows.
  bool is_finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // Index of the file that is coming, and bytes of those before it and of it.
  int file_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t before_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t come_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null after a start, until it was caught up with.
  std::unique_ptr<io::WritableFile> incoming_ ABSL_GUARDED_BY(mutex_);
  Sha256 digest_ ABSL_GUARDED_BY(mutex_);
  Copy copy_ ABSL_GUARDED_BY(mutex_);
  std::atomic<double> last_progress_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_STAGED_UPLOAD_H_
