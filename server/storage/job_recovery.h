#ifndef HEARTH_SERVER_STORAGE_JOB_RECOVERY_H_
#define HEARTH_SERVER_STORAGE_JOB_RECOVERY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/job_rows.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

/// The second copy of each job, in the job's own folder: enough to list the job
/// again when the database is lost.
///
///   jobs/ID/job.json      the job as it was when it last became QUEUED or
///                         ended, in JSON with a checksum (sealed_json.h);
///                         serialized within that until it has begun once
///   jobs/ID/deleted.json  the same of a job whose deletion has begun
///   last_deleted          greatest number of a job that was deleted
///
/// Thread-compatible; calls for different jobs may run at a time.
class JobFolders {
 public:
  /// Names of the copy in a job's folder, and of the file in the data directory
  /// that has the greatest number of a job that was deleted.
  static constexpr char kCopyName[] = "job.json";
  static constexpr char kLastDeletedName[] = "last_deleted";

  /// A job as its folder has it.
  struct Copy {
    v1::Job job;
    /// Id of the submission; may be empty.
    std::string request_id;
    /// The deletion of the job has begun.
    bool is_deleted = false;
  };

  /// `files` must outlive this. `data_dir` is the data directory.
  JobFolders(io::FileSystem& files, const std::string& data_dir);

  /// Replaces the job's copy, durably; makes the folder if there is none.
  absl::Status Write(const v1::Job& job, const std::string& request_id);

  /// The same for a new job, without waiting for the disk: the system writes it
  /// within a minute. Power loss before leaves no copy, or an empty one; Write
  /// is called before the job begins.
  absl::Status WriteFirst(const v1::Job& job, const std::string& request_id);

  /// Marks the job as deleted, durably, and keeps its number from coming back
  /// with a new database. Takes no space for the mark. Fine without a copy.
  absl::Status MarkDeleted(const std::string& id, int64_t number);

  /// The copy in folder `id`. NOT_FOUND if there is none; DATA_LOSS if it is
  /// damaged or that of another job.
  absl::StatusOr<Copy> Read(const std::string& id);

  /// Whether nothing lies in folder `id` but a copy that was not finished: the
  /// daemon ended in the middle of WriteFirst, before the job was acknowledged.
  bool WasNeverWritten(const std::string& id);

  /// When the copy was written; absl::InfinitePast() if there is none, or an
  /// empty one.
  absl::Time WrittenAt(const std::string& id);

  /// Names of all that lies in jobs/.
  absl::StatusOr<std::vector<std::string>> List();

  /// Removes the folder.
  absl::Status Remove(const std::string& id);

  /// Moves the folder to lost+found/ and returns its new path.
  absl::StatusOr<std::string> SetAside(const std::string& id);

  /// The greatest number of a job whose folder is in jobs/, where `names` are,
  /// or lost+found/, or that was deleted; 0 if there is none.
  absl::StatusOr<int64_t> GreatestNumber(const std::vector<std::string>& names);

 private:
  std::string Path(const std::string& id) const;

  io::FileSystem& files_;
  const std::string data_dir_;
  const std::string jobs_;
  const std::string lost_;
};

/// Recovery at a start from a database of jobs that is missing, damaged or not
/// that of the folders of jobs. Nothing is deleted. All that an operator should
/// know is logged, and added to `warnings`.

/// Opens the database, or makes an empty one where there is none. A file that
/// is not a database, or is found damaged by Database::CheckSound, is renamed
/// to PATH.damaged-TIME first. `vfs` as for Database::Open.
absl::StatusOr<std::unique_ptr<Database>> OpenJobDatabase(
    io::FileSystem& files, const std::string& path, const std::string& vfs,
    const Clock& clock, std::vector<std::string>& warnings);

/// Moves rows of jobs that cannot be read to the table of damaged rows.
absl::Status SetAsideDamagedRows(Database& database, JobRows& rows,
                                 std::vector<std::string>& warnings);

/// Brings rows and folders together. Folders of jobs without a row are listed
/// again, as they ended, or QUEUED if they had not; those without a readable
/// copy of the job go to lost+found/; those whose deletion had begun, and those
/// in which nothing was finished, are removed. Jobs whose copy is missing or
/// old get a new one. Numbers of new jobs begin after the greatest that any
/// folder or deleted job had.
absl::Status AdoptFolders(Database& database, JobRows& rows,
                          JobFolders& folders,
                          std::vector<std::string>& warnings);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_RECOVERY_H_
