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
#include "engine/plan/plan_store.h"

namespace hearth::server {

/// The right of one process to a folder: an exclusive flock on its file
/// hearth.lock, which holds the pid for others' messages. The kernel drops it
/// when the process ends, however it ends. Move-only.
class FolderLock {
 public:
  /// Does not wait. UNAVAILABLE, naming the other's pid, if a process has the
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

/// OK if what would be made at the absolute path `destination` lies outside the
/// data directory `data_dir`, with ".." and all symbolic links resolved that
/// there are now. INVALID_ARGUMENT otherwise: a daemon owns all that lies in
/// its data directory and may remove it.
absl::Status CheckOutside(io::FileSystem& files, const std::string& data_dir,
                          const std::string& destination);

/// The folder that one daemon owns:
///
///   hearth.lock        locked while a daemon runs; holds its pid
///   format_version     of this layout
///   hearth.db          jobs and their events
///   datasets/NAME/     imported graphs
///   datasets/ID.tmp/   what the job of that id has made of one so far
///   jobs/ID/           a job's checkpoint and model, and what lists it again
///                      (see job_folders.h)
///   last_deleted       greatest number of a job that was deleted
///   lost+found/        folders of jobs that belonged to no job
///   reserve/           space for hearth.db on a full disk (DiskReserve)
///   hearth.sock        the Unix socket, while a daemon runs
///   audit.log          calls that changed something, or were refused
///   tokens_required    there once a token has been made
///   plans/             plans that jobs made, for other jobs like them
///   uploads/ID/         files that clients send (StagedUpload)
///   scratch/           files of this daemon's run; emptied at its start
///
/// Holds the lock until destroyed. Thread-safe.
class DataDir {
 public:
  /// Version of the layout; a newer one is refused.
  static constexpr int kFormatVersion = 1;

  /// Names in the data directory: the file with that version, the database, the
  /// folder of the jobs' folders, the file that is there once a token has been
  /// made.
  static constexpr char kFormatName[] = "format_version";
  static constexpr char kDatabaseName[] = "hearth.db";
  static constexpr char kJobsName[] = "jobs";
  static constexpr char kTokensMarkerName[] = "tokens_required";

  /// Creates `path` if it is missing, locks it, and removes what an earlier
  /// daemon left unfinished ("*.tmp"), but for datasets. Only the daemon's user
  /// can enter it (mode 0700); `group` can pass through it (0710) to the
  /// socket. FAILED_PRECONDITION for a folder that is open to others and holds
  /// what no daemon has made. UNAVAILABLE, naming the other's pid, if a daemon
  /// has it, at once and without touching anything; FAILED_PRECONDITION if its
  /// layout is newer.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(
      io::FileSystem& files, std::string path,
      std::optional<gid_t> group = std::nullopt);

  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  /// Removes unfinished datasets, but for those of `jobs`, by id, which go on
  /// with them. To be called once it is known which jobs have not ended.
  absl::Status RemoveUnfinishedDatasets(
      io::FileSystem& files, const std::set<std::string>& jobs) const;

  const std::string& path() const { return path_; }
  std::string DatabasePath() const;
  std::string DatasetsPath() const;
  /// REQUIRES: a valid name (see names.h).
  std::string DatasetPath(const std::string& name) const;
  /// The folder of the dataset that a job makes while it is unfinished: no
  /// dataset is called so. It is the job's until that has ended.
  std::string UnfinishedDatasetPath(const std::string& job_id) const;
  std::string JobsPath() const;
  /// REQUIRES: an id that the job store gave out.
  std::string JobPath(const std::string& id) const;
  std::string PlansPath() const;
  std::string UploadsPath() const;
  /// The Unix socket on which gRPC is served.
  std::string SocketPath() const;
  std::string AuditLogPath() const;
  /// There once a token has been made (see TokenStore).
  std::string TokensMarkerPath() const;
  std::string ReservePath() const;
  std::string ScratchPath() const;
  /// Within it: what was deleted and is not removed yet.
  std::string TrashPath() const;

 private:
  DataDir(std::string path, FolderLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  // FAILED_PRECONDITION for a folder with files of others that others may read.
  absl::Status CheckOurs(io::FileSystem& files) const;
  absl::Status Protect(io::FileSystem& files, std::optional<gid_t> group) const;
  absl::Status Prepare(io::FileSystem& files, std::optional<gid_t> group) const;

  const std::string path_;
  const FolderLock lock_;
};

/// Folders on disks of their own, over which jobs stripe features. In each the
/// daemon has a folder of plans:
///
///   FOLDER/hearth/hearth.lock   locked while a daemon uses it
///   FOLDER/hearth/PLAN/         a plan (plan::PlanStore)
///
/// Holds the locks until destroyed. Thread-safe.
class DataDisks {
 public:
  static constexpr char kFolderName[] = "hearth";

  /// Makes the folders of plans, whose owner alone can enter them, and removes
  /// what was left unfinished of removals. `files` and `clock` outlive it. Each
  /// error begins with "--data-disk FOLDER: ": FAILED_PRECONDITION if it is not
  /// there, INVALID_ARGUMENT if it is named twice, UNAVAILABLE if another
  /// daemon uses it, and errors of writing.
  static absl::StatusOr<std::unique_ptr<DataDisks>> Open(
      io::FileSystem& files, const Clock& clock,
      const std::vector<std::string>& folders);

  /// In the order of the folders.
  absl::Span<plan::PlanStore* const> stores() const { return stores_; }
  const std::vector<std::string>& folders() const { return folders_; }
  /// A sentence for each folder on the file system of an earlier one.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  DataDisks() = default;

  std::vector<std::string> folders_;
  std::vector<std::string> warnings_;
  std::vector<FolderLock> locks_;
  std::vector<std::unique_ptr<plan::PlanStore>> owned_;
  std::vector<plan::PlanStore*> stores_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DATA_DIR_H_
