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

/// OK if the files that a request announces can be kept. INVALID_ARGUMENT names
/// the field at fault, such as a path that leaves its folder.
absl::Status CheckUploadRequest(const v1::BeginUploadRequest& request);

/// Files of one upload, as far as they have been received. In its folder:
///
///   upload         owner and request, sealed with a SHA-256
///   source/PATH    complete files with the announced digests
///   incoming       the file being received
///   incoming.tmp   copy of `incoming`, while CatchUp makes it
///
/// Bytes that Append has taken survive a kill of the daemon; files that
/// FinishFile has put below source survive a power loss. Thread-safe.
class StagedUpload {
 public:
  /// `files` and `clock` must outlive the upload.
  struct Options {
    io::FileSystem& files;
    const Clock& clock;
    std::string folder;
  };

  /// Begins an upload in a new folder, durably. REQUIRES:
  /// CheckUploadRequest(request) is OK.
  static absl::StatusOr<std::unique_ptr<StagedUpload>> Make(
      const Options& options, const std::string& owner,
      const v1::BeginUploadRequest& request);

  /// Continues an upload of an earlier daemon. DATA_LOSS if files are missing
  /// or damaged.
  static absl::StatusOr<std::unique_ptr<StagedUpload>> Load(
      const Options& options);

  /// Makes `incoming` ready for Append, in steps of up to 4 MiB; false: there
  /// is more to do. After a start of the daemon, received bytes are copied and
  /// their digest is computed again.
  absl::StatusOr<bool> CatchUp() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes the next bytes, up to the end of the current file; returns their
  /// number. OUT_OF_RANGE unless they begin at received_bytes() and end within
  /// the upload. After any error, received bytes stay, and Append can be called
  /// again. REQUIRES: CatchUp returned true.
  absl::StatusOr<size_t> Append(uint64_t offset,
                                absl::Span<const std::byte> data)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether all bytes of the current file are received: Append takes none
  /// before FinishFile has ended.
  bool IsFileFull() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Moves a full file to its place, durably, and makes the next one ready for
  /// Append. It takes as long as the disk's syncs; only another FinishFile
  /// waits for it. ABORTED if the file does not have its digest; then, and if
  /// it cannot be synced, it has to be sent again. After other errors
  /// FinishFile can be called again. Does nothing if no file is full.
  absl::Status FinishFile() ABSL_LOCKS_EXCLUDED(finishing_, mutex_);

  /// Resets the time after which the upload counts as abandoned.
  void Touch();

  const std::string& owner() const { return owner_; }
  const v1::BeginUploadRequest& request() const { return request_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t received_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Whether all files are complete.
  bool IsWhole() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Folder, or the one file, to import.
  std::string SourcePath() const;
  /// Time of the last progress, on the steady clock. Never blocks.
  double last_progress() const { return last_progress_; }

 private:
  // Copy of bytes received before the daemon's start.
  struct Copy {
    std::unique_ptr<io::ReadableFile> from;
    std::unique_ptr<io::WritableFile> to;
    uint64_t bytes = 0;
  };

  StagedUpload(const Options& options, std::string owner,
               v1::BeginUploadRequest request);

  std::string IncomingPath() const;
  // Sets the received files and bytes from the files. Changes nothing after an
  // error.
  absl::Status FindReceived() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets the time of the last progress from the files.
  absl::Status FindProgress();
  const v1::UploadFile& current() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return request_.files(file_);
  }
  bool IsWholeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return file_ == request_.files_size();
  }
  bool IsFileFullLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> CopyStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes an empty `incoming`.
  absl::Status OpenIncoming() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Renames `incoming` to its place, and syncs the folders on the way to it.
  absl::Status Place(const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(finishing_);
  // Begins the next file, once the current one is in its place.
  absl::Status OpenNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(finishing_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets what was received of the current file.
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
  // Not held during syncs.
  mutable absl::Mutex mutex_;
  // FinishFile owns the current file, and alone changes the members below.
  bool is_finishing_ ABSL_GUARDED_BY(mutex_) = false;
  // Index of the current file; bytes of the files before it, and received bytes
  // of it.
  int file_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t before_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t come_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null after a start, until CatchUp is done.
  std::unique_ptr<io::WritableFile> incoming_ ABSL_GUARDED_BY(mutex_);
  Sha256 digest_ ABSL_GUARDED_BY(mutex_);
  Copy copy_ ABSL_GUARDED_BY(mutex_);
  std::atomic<double> last_progress_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_STAGED_UPLOAD_H_
