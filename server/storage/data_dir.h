#ifndef HEARTH_SERVER_STORAGE_DATA_DIR_H_
#define HEARTH_SERVER_STORAGE_DATA_DIR_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"

/// Folders that one daemon owns: the data directory and the data disks, with
/// their locks.

namespace hearth::plan {
class PlanStore;
}

namespace hearth::server {

/// Exclusive right of one process to a folder: a flock on its file hearth.lock,
/// which holds the process's pid for messages of others. The kernel drops it
/// when the process ends in any way. Move-only.
class FolderLock {
 public:
  /// Does not wait. UNAVAILABLE, naming the other pid, if a process has the
  /// folder: "WHAT FOLDER is in use by another hearthd, process 7; REMEDY".
  static absl::StatusOr<FolderLock> Take(const std::string& folder,
                                         absl::string_view what,
                                         absl::string_view remedy);

  FolderLock(FolderLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

/// OK if the absolute path `destination`, with ".." and existing symbolic links
/// resolved, lies outside the data directory `data_dir`. INVALID_ARGUMENT
/// otherwise: a daemon owns everything in its data directory and may remove it.
absl::Status CheckOutside(io::FileSystem& files, const std::string& data_dir,
                          const std::string& destination);

/// Folder that one daemon owns:
///
///   hearth.lock        locked while a daemon runs; holds its pid
///   format_version     of this layout
///   hearth.db          jobs and their events
///   datasets/NAME/     imported graphs
///   datasets/ID.tmp/   unfinished dataset of the job of that id
///   jobs/ID/           a job's checkpoint and model, and a copy of its row
///                      (JobFolders)
///   last_deleted       greatest number of a deleted job
///   lost+found/        folders of jobs that belonged to no job
///   reserve/           space for hearth.db on a full disk (DiskReserve)
///   hearth.sock        the Unix socket, while a daemon runs
///   audit.log          calls that changed something, or were refused
///   tokens_required    there once a token has been made
///   plans/             plans that jobs made, for other jobs like them
///   uploads/ID/        files that clients send (StagedUpload)
///   scratch/           files of this daemon's run; emptied at its start
///
/// Holds the lock until destroyed. Thread-safe.
class DataDir {
 public:
  /// Version of the layout; a newer one is refused.
  static constexpr int kFormatVersion = 1;

  /// Names in the data directory: the file with the version, the database, the
  /// folder of the jobs' folders, and the marker file of tokens.
  static constexpr char kFormatName[] = "format_version";
  static constexpr char kDatabaseName[] = "hearth.db";
  static constexpr char kJobsName[] = "jobs";
  static constexpr char kTokensMarkerName[] = "tokens_required";

  /// Creates `path` if it is missing, locks it, and removes unfinished files of
  /// an earlier daemon ("*.tmp"), but for datasets. Only the daemon's user can
  /// enter it (mode 0700); `group` can pass through it (0710) to the socket.
  /// FAILED_PRECONDITION for a folder that is open to others and holds files
  /// that no daemon made. UNAVAILABLE, naming the other pid, if a daemon has
  /// it, at once and without touching anything; FAILED_PRECONDITION if its
  /// layout is newer.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(
      io::FileSystem& files, std::string path,
      std::optional<gid_t> group = std::nullopt);

  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  /// Removes unfinished datasets, except of the jobs with ids in `jobs`, which
  /// go on with them. Call it once it is known which jobs have not ended.
  absl::Status RemoveUnfinishedDatasets(
      io::FileSystem& files, const std::set<std::string>& jobs) const;

  const std::string& path() const { return path_; }
  std::string DatabasePath() const;
  std::string DatasetsPath() const;
  /// REQUIRES: IsValidName(name).
  std::string DatasetPath(const std::string& name) const;
  /// Folder of a job's dataset while it is unfinished; no dataset has such a
  /// name. It belongs to the job until the job has ended.
  std::string UnfinishedDatasetPath(const std::string& job_id) const;
  std::string JobsPath() const;
  /// REQUIRES: an id that the job store gave out.
  std::string JobPath(const std::string& id) const;
  std::string PlansPath() const;
  /// Folder of the profiles of disks.
  std::string DevicesPath() const;
  /// Folder in which attempts at jobs of several machines are remembered.
  std::string AttemptsPath() const;
  std::string UploadsPath() const;
  /// The Unix socket on which gRPC is served.
  std::string SocketPath() const;
  /// The Unix socket by which clients take the batches of feed jobs.
  std::string FeedSocketPath() const;
  std::string AuditLogPath() const;
  /// Marker file that exists once a token has been made (see TokenStore).
  std::string TokensMarkerPath() const;
  std::string ReservePath() const;
  std::string ScratchPath() const;
  /// Folder in the scratch folder for deleted files that are not removed yet.
  std::string TrashPath() const;

 private:
  DataDir(std::string path, FolderLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  // FAILED_PRECONDITION for a folder that others may read and that holds files
  // that no daemon made.
  absl::Status CheckOurs(io::FileSystem& files) const;
  absl::Status Protect(io::FileSystem& files, std::optional<gid_t> group) const;
  absl::Status Prepare(io::FileSystem& files, std::optional<gid_t> group) const;

  const std::string path_;
  const FolderLock lock_;
};

/// Folders on disks of their own, over which jobs stripe features. In each, the
/// daemon has a folder of plans:
///
///   FOLDER/hearth/hearth.lock   locked while a daemon uses it
///   FOLDER/hearth/PLAN/         a plan (plan::PlanStore)
///
/// Holds the locks until destroyed. Thread-safe.
class DataDisks {
 public:
  static constexpr char kFolderName[] = "hearth";

  /// Makes the folders of plans, which their owner alone can enter, and removes
  /// leftovers of removals. `files` and `clock` outlive it. Each error begins
  /// with "--data-disk FOLDER: ": FAILED_PRECONDITION if it does not exist,
  /// INVALID_ARGUMENT if it is named twice, UNAVAILABLE if another daemon uses
  /// it, and errors of writing.
  static absl::StatusOr<std::unique_ptr<DataDisks>> Open(
      io::FileSystem& files, const Clock& clock,
      const std::vector<std::string>& folders);
  ~DataDisks();

  /// Plan stores in the order of the folders.
  absl::Span<plan::PlanStore* const> stores() const { return stores_; }
  const std::vector<std::string>& folders() const { return folders_; }
  /// One sentence for each folder on the same file system as an earlier one.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  DataDisks();

  std::vector<std::string> folders_;
  std::vector<std::string> warnings_;
  std::vector<FolderLock> locks_;
  std::vector<std::unique_ptr<plan::PlanStore>> owned_;
  std::vector<plan::PlanStore*> stores_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DATA_DIR_H_
