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

/// Second copy of each job in its folder, recovery of a lost or damaged
/// database from the copies, and backups.

namespace hearth::server {

class DataDir;
class Database;
class JobRows;
class JobStore;

/// Second copy of each job, in the job's own folder: enough to list the job
/// again when the database is lost.
///
///   jobs/ID/job.json      the job as it was when it last became QUEUED or
///                         ended: sealed JSON (store::SealJson); before its
///                         first start, the serialized job within it
///   jobs/ID/deleted.json  job.json of a job whose deletion has begun
///   last_deleted          greatest number of a deleted job
///
/// Thread-compatible; calls for different jobs may run concurrently.
class JobFolders {
 public:
  /// Names of the copy in a job's folder, and of the file in the data directory
  /// with the greatest number of a deleted job.
  static constexpr char kCopyName[] = "job.json";
  static constexpr char kLastDeletedName[] = "last_deleted";

  /// Contents of a job's copy.
  struct Copy {
    v1::Job job;
    /// Id of the submission; may be empty.
    std::string request_id;
    /// Whether the deletion of the job has begun.
    bool is_deleted = false;
  };

  /// `files` must outlive this. `data_dir` is the data directory.
  JobFolders(io::FileSystem& files, const std::string& data_dir);

  /// Replaces the job's copy, durably; makes the folder if it is missing.
  absl::Status Write(const v1::Job& job, const std::string& request_id);

  /// Writes the copy of a new job without waiting for the disk: the system
  /// writes it within a minute. Power loss before that leaves no copy, or an
  /// empty one; Write is called before the job begins.
  absl::Status WriteFirst(const v1::Job& job, const std::string& request_id);

  /// Marks the job as deleted, durably, and keeps its number from being given
  /// out by a new database. The mark takes no space. OK also without a copy.
  absl::Status MarkDeleted(const std::string& id, int64_t number);

  /// Copy in folder `id`. NOT_FOUND if there is none; DATA_LOSS if it is
  /// damaged or another job's.
  absl::StatusOr<Copy> Read(const std::string& id);

  /// Whether folder `id` holds at most an unfinished copy: the daemon ended
  /// during WriteFirst, before the job was acknowledged.
  bool WasNeverWritten(const std::string& id);

  /// Time of the last write of the copy; absl::InfinitePast() if there is none,
  /// or an empty one.
  absl::Time WrittenAt(const std::string& id);

  /// Names of all entries of jobs/.
  absl::StatusOr<std::vector<std::string>> List();

  /// Removes the folder.
  absl::Status Remove(const std::string& id);

  /// Moves the folder to lost+found/ and returns its new path.
  absl::StatusOr<std::string> SetAside(const std::string& id);

  /// Greatest number of a job whose folder is in jobs/ (`names` are its
  /// entries) or lost+found/, or that was deleted; 0 if there is none.
  absl::StatusOr<int64_t> GreatestNumber(const std::vector<std::string>& names);

 private:
  std::string Path(const std::string& id) const;

  io::FileSystem& files_;
  const std::string data_dir_;
  const std::string jobs_;
  const std::string lost_;
};

/// Recovery at a start from a database of jobs that is missing, damaged or does
/// not match the folders of jobs. Nothing is deleted. Whatever an operator
/// should know is logged, and added to `warnings`.

/// Opens the database, or makes an empty one where there is none. A file that
/// is no database, or that Database::CheckSound finds damaged, is renamed to
/// PATH.damaged-TIME first. `vfs` as for Database::Open.
absl::StatusOr<std::unique_ptr<Database>> OpenJobDatabase(
    io::FileSystem& files, const std::string& path, const std::string& vfs,
    const Clock& clock, std::vector<std::string>& warnings);

/// Moves rows of jobs that cannot be read to the table of damaged rows.
absl::Status SetAsideDamagedRows(Database& database, JobRows& rows,
                                 std::vector<std::string>& warnings);

/// Makes rows and folders agree. A job with a folder but no row is listed
/// again, as it ended, or QUEUED if it had not ended; a folder without a
/// readable copy of its job goes to lost+found/; a folder whose deletion had
/// begun, or in which nothing was finished, is removed. A job whose copy is
/// missing or old gets a new one. New jobs get numbers greater than that of any
/// folder or deleted job.
absl::Status AdoptFolders(Database& database, JobRows& rows,
                          JobFolders& folders,
                          std::vector<std::string>& warnings);

struct BackupResult {
  int64_t jobs = 0;
  int64_t models = 0;
  /// Bytes of all files.
  uint64_t size_bytes = 0;
};

/// Copies to the new folder `destination`, an absolute path, the files needed
/// to list the jobs again and to export their models: hearth.db as it is at one
/// moment, and each job's copy and model. The result is a data directory
/// without datasets and plans. Whole or absent, durable; jobs go on meanwhile.
/// INVALID_ARGUMENT for a folder in the data directory, ALREADY_EXISTS if
/// `destination` exists.
absl::StatusOr<BackupResult> BackUp(io::FileSystem& files,
                                    const DataDir& data_dir,
                                    const JobStore& store,
                                    const std::string& destination);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_RECOVERY_H_
