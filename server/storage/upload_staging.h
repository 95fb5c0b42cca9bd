#ifndef HEARTH_SERVER_STORAGE_UPLOAD_STAGING_H_
#define HEARTH_SERVER_STORAGE_UPLOAD_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "hearth/v1/datasets.pb.h"
#include "server/storage/staged_upload.h"

namespace hearth::server {

class JobStore;
class Trash;

struct UploadOptions {
  /// Existing folder of the uploads' folders.
  std::string folder;
  /// Bytes that all uploads together may announce; an owner who is no operator
  /// may take half of them; 0 = no uploads.
  uint64_t limit_bytes = uint64_t{10} << 30;
  /// Time without progress after which an upload that no job uses is removed.
  absl::Duration patience = absl::Hours(24);
};

/// Uploads that are kept for import jobs. An upload is removed when its job has
/// ended, when another upload of its owner for the same dataset replaces it,
/// and when it is abandoned; uploads of an earlier daemon go on. Thread-safe.
class UploadStaging {
 public:
  /// All must outlive the object. `files` reaches the folder of the options.
  struct Dependencies {
    io::FileSystem& files;
    const Clock& clock;
    JobStore& jobs;
    Trash& trash;
  };

  /// Finds existing uploads and the jobs that use them; removes uploads that
  /// cannot be read, or whose job has ended.
  static absl::StatusOr<std::unique_ptr<UploadStaging>> Open(
      const Dependencies& deps, const UploadOptions& options);
  ~UploadStaging();
  UploadStaging(const UploadStaging&) = delete;
  UploadStaging& operator=(const UploadStaging&) = delete;

  static constexpr size_t kMostUploads = 64;
  static constexpr size_t kMostPerOwner = 8;

  /// Begins an upload. Errors as Datasets.BeginUpload, except for the name's.
  absl::StatusOr<v1::Upload> Begin(const v1::BeginUploadRequest& request,
                                   const std::string& owner, bool is_operator)
      ABSL_LOCKS_EXCLUDED(beginning_, mutex_);

  /// Upload `id`. NOT_FOUND for an unknown id, as in all methods below with an
  /// id.
  absl::StatusOr<v1::Upload> Get(const std::string& id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// All uploads, by the names of their datasets.
  std::vector<v1::Upload> List() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Removes an upload. FAILED_PRECONDITION while a job uses it.
  absl::Status Delete(const std::string& id)
      ABSL_LOCKS_EXCLUDED(beginning_, mutex_);
  absl::StatusOr<std::string> GetOwner(const std::string& id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// Object that takes the upload's bytes. The upload may be removed meanwhile.
  absl::StatusOr<std::shared_ptr<StagedUpload>> Find(
      const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Path to import. FAILED_PRECONDITION, telling how much is missing, unless
  /// all files are complete.
  absl::StatusOr<std::string> SourceOf(const std::string& id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Notes that `job` uses the upload until the job has ended. Does nothing for
  /// an unknown id.
  void Use(const std::string& id, const std::string& job)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Notes that `job` has a new event: it may have ended. No I/O.
  void OnJobEvent(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Removes unused uploads. Called on a thread of this object, after events
  /// and when uploads expire.
  void RemoveUnused() ABSL_LOCKS_EXCLUDED(removing_, mutex_);

 private:
  struct Entry {
    std::shared_ptr<StagedUpload> upload;
    // Job that uses it; empty = none.
    std::string job;
  };

  UploadStaging(const Dependencies& deps, const UploadOptions& options);

  std::string FolderOf(const std::string& id) const;
  v1::Upload ToProto(const std::string& id, const Entry& entry) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the jobs of the uploads; removes uploads of jobs that have ended.
  absl::Status FindJobs() ABSL_LOCKS_EXCLUDED(mutex_);
  // Id of the owner's upload for the dataset `name`; empty = none.
  std::string FindOf(const std::string& owner, const std::string& name) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED unless there is room for another upload.
  absl::Status CheckRoom(uint64_t bytes, const std::string& owner,
                         bool is_operator) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasJob(const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Time that an upload without a job may go without progress.
  absl::Duration PatienceWith(const StagedUpload& upload) const;
  void Remove(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);
  void Work() ABSL_LOCKS_EXCLUDED(removing_, mutex_);
  // Waits until there may be an upload to remove; false: the object is being
  // destroyed.
  bool Await() ABSL_LOCKS_EXCLUDED(mutex_);

  const Dependencies deps_;
  const UploadOptions options_;
  // Held while an upload begins, or is deleted: one at a time.
  absl::Mutex beginning_ ABSL_ACQUIRED_BEFORE(mutex_);
  // Held while unused uploads are removed.
  absl::Mutex removing_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::map<std::string, Entry> uploads_ ABSL_GUARDED_BY(mutex_);
  // Jobs with events, which may have ended.
  std::set<std::string> told_ ABSL_GUARDED_BY(mutex_);
  // Jobs whose state could not be read; they are read again after a pause.
  std::set<std::string> unanswered_ ABSL_GUARDED_BY(mutex_);
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_UPLOAD_STAGING_H_
