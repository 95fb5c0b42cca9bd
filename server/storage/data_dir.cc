#include "server/storage/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/plan/plan_store.h"

namespace hearth::server {

namespace {

constexpr char kLockName[] = "hearth.lock";

// "another hearthd, process 7".
std::string OtherProcess(int lock) {
  char text[32] = {};
  const ssize_t length = pread(lock, text, sizeof(text) - 1, 0);
  int pid = 0;
  const bool known = length > 0 && absl::SimpleAtoi(text, &pid);
  return absl::StrCat("another hearthd",
                      known ? absl::StrCat(", process ", pid) : std::string());
}

// A full disk is no reason not to start.
absl::Status WritePid(const std::string& path, int lock) {
  const std::string text = absl::StrCat(getpid(), "\n");
  const bool written =
      ftruncate(lock, 0) == 0 && pwrite(lock, text.data(), text.size(), 0) ==
                                     static_cast<ssize_t>(text.size());
  if (written || errno == ENOSPC) return absl::OkStatus();
  return ErrnoStatus(errno, path, "write");
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder,
                                            absl::string_view what,
                                            absl::string_view remedy) {
  const std::string path = io::JoinPath(folder, kLockName);
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return ErrnoStatus(errno, path, "open");
  FolderLock taken(lock);
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
    const absl::Status written = WritePid(path, lock);
    if (!written.ok()) return written;
    return taken;
  }
  if (errno != EWOULDBLOCK) return ErrnoStatus(errno, path, "flock");
  return absl::UnavailableError(absl::StrCat(
      what, " ", folder, " is in use by ", OtherProcess(lock), "; ", remedy));
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

namespace {

// `path` without symbolic links, "." and "..", as far as it exists; the rest
// counts as folders yet to be made.
std::string Resolve(io::FileSystem& files, const std::string& path) {
  std::string resolved = "/";
  for (const absl::string_view part :
       absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part == "..") {
      resolved = io::ParentDirectory(resolved);
      continue;
    }
    const std::string next = resolved == "/"
                                 ? absl::StrCat("/", part)
                                 : absl::StrCat(resolved, "/", part);
    resolved = files.RealPath(next).value_or(next);
  }
  return resolved;
}

}  // namespace

absl::Status CheckOutside(io::FileSystem& files, const std::string& data_dir,
                          const std::string& destination) {
  HEARTH_ASSIGN_OR_RETURN(const std::string owned, files.RealPath(data_dir));
  const std::string resolved = Resolve(files, destination);
  if (resolved != owned && !absl::StartsWith(resolved, owned + "/")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(destination, " lies in the daemon's own data directory, ",
                   owned, "; choose a folder elsewhere"));
}

// Steps of opening:
//   1. make the folder, only if it is missing, so that a second daemon changes
//      nothing;
//   2. lock it;
//   3. check format_version; only then change anything: make folders and remove
//      leftovers.

namespace {

constexpr char kDatasetsName[] = "datasets";
constexpr char kPlansName[] = "plans";
constexpr char kDevicesName[] = "devices";
constexpr char kAttemptsName[] = "attempts";
constexpr char kReserveName[] = "reserve";
constexpr char kScratchName[] = "scratch";
constexpr char kTrashName[] = "trash";
constexpr char kUploadsName[] = "uploads";

// Like mkdir -p.
absl::Status MakeFolders(io::FileSystem& files, const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    HEARTH_RETURN_IF_ERROR(files.CreateDirectory(path.substr(0, slash)));
  }
  return files.CreateDirectory(path);
}

absl::Status CheckFormat(io::FileSystem& files, const std::string& directory) {
  const std::string path = io::JoinPath(directory, DataDir::kFormatName);
  const absl::StatusOr<std::string> text = io::ReadWholeFile(files, path, 64);
  // A disk that loses synced data leaves an empty file, or zeros.
  const bool is_lost =
      text.ok() && text->find_first_not_of('\0') == std::string::npos;
  if (absl::IsNotFound(text.status()) || is_lost) {
    return io::WriteFileAtomically(files, path,
                                   absl::StrCat(DataDir::kFormatVersion, "\n"));
  }
  HEARTH_RETURN_IF_ERROR(text.status());
  int version = 0;
  if (!absl::SimpleAtoi(*text, &version) || version < 1) {
    return absl::DataLossError(absl::StrCat(path, ": not a version"));
  }
  if (version > DataDir::kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", directory, " has format ", version,
                     ", which a newer hearthd wrote; this one knows up to ",
                     DataDir::kFormatVersion));
  }
  return absl::OkStatus();
}

// Removes unfinished entries of `directory`, except `kept`; returns the names
// of the rest.
absl::StatusOr<std::vector<std::string>> RemoveLeftovers(
    io::FileSystem& files, const std::string& directory,
    const std::set<std::string>& kept = {}) {
  HEARTH_ASSIGN_OR_RETURN(std::vector<std::string> names,
                          files.List(directory));
  const auto first = std::stable_partition(
      names.begin(), names.end(), [&](const std::string& name) {
        return !absl::EndsWith(name, io::kTemporarySuffix) ||
               kept.contains(name);
      });
  for (auto leftover = first; leftover != names.end(); ++leftover) {
    HEARTH_RETURN_IF_ERROR(
        files.RemoveTree(io::JoinPath(directory, *leftover)));
  }
  names.erase(first, names.end());
  return names;
}

absl::Status RemoveLeftoversOfJob(io::FileSystem& files,
                                  const std::string& folder) {
  const absl::Status removed = RemoveLeftovers(files, folder).status();
  if (removed.ok()) return removed;
  // Files and dangling links are not ours: see AdoptFolders. There may be very
  // many folders, so only entries that fail are inspected.
  const absl::StatusOr<io::FileInfo> info = files.Stat(folder);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(info.status());
  return info->is_directory ? removed : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::Open(
    io::FileSystem& files, std::string path, std::optional<gid_t> group) {
  HEARTH_RETURN_IF_ERROR(MakeFolders(files, path));
  HEARTH_ASSIGN_OR_RETURN(
      FolderLock lock, FolderLock::Take(path, "data directory",
                                        "stop it or use another --data-dir"));
  std::unique_ptr<DataDir> data_dir(
      new DataDir(std::move(path), std::move(lock)));
  HEARTH_RETURN_IF_ERROR(data_dir->Prepare(files, group));
  return data_dir;
}

absl::Status DataDir::CheckOurs(io::FileSystem& files) const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files.List(path_));
  // The lock file is one of the names.
  if (names.size() <= 1 || files.Stat(io::JoinPath(path_, kFormatName)).ok()) {
    return absl::OkStatus();
  }
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0) return ErrnoStatus(errno, path_, "stat");
  if ((info.st_mode & (S_IRGRP | S_IWGRP | S_IRWXO)) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path_,
      ": holds what no hearthd has made, and others may read it; choose an "
      "empty folder as --data-dir, or chmod 700 this one"));
}

absl::Status DataDir::Protect(io::FileSystem& files,
                              std::optional<gid_t> group) const {
  if (group.has_value() &&
      chown(path_.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return ErrnoStatus(errno, path_, "give it to the group of the socket");
  }
  // Users who may pass through the folder must not get further.
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files.List(path_));
  for (const std::string& name : names) {
    const std::string path = io::JoinPath(path_, name);
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || S_ISLNK(info.st_mode)) continue;
    if (chmod(path.c_str(), S_ISDIR(info.st_mode) ? 0700 : 0600) != 0) {
      return ErrnoStatus(errno, path, "chmod");
    }
  }
  if (chmod(path_.c_str(), group.has_value() ? 0710 : 0700) != 0) {
    return ErrnoStatus(errno, path_, "chmod");
  }
  return absl::OkStatus();
}

absl::Status DataDir::Prepare(io::FileSystem& files,
                              std::optional<gid_t> group) const {
  HEARTH_RETURN_IF_ERROR(CheckOurs(files));
  HEARTH_RETURN_IF_ERROR(CheckFormat(files, path_));
  HEARTH_RETURN_IF_ERROR(Protect(files, group));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(DatasetsPath()));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(JobsPath()));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(PlansPath()));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(UploadsPath()));
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(ScratchPath()));
  HEARTH_RETURN_IF_ERROR(files.SyncDirectory(path_));
  for (const std::string& folder : {path_, PlansPath()}) {
    HEARTH_RETURN_IF_ERROR(RemoveLeftovers(files, folder).status());
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> jobs,
                          RemoveLeftovers(files, JobsPath()));
  for (const std::string& job : jobs) {
    HEARTH_RETURN_IF_ERROR(RemoveLeftoversOfJob(files, JobPath(job)));
  }
  return absl::OkStatus();
}

absl::Status DataDir::RemoveUnfinishedDatasets(
    io::FileSystem& files, const std::set<std::string>& jobs) const {
  std::set<std::string> kept;
  for (const std::string& job : jobs) {
    kept.insert(absl::StrCat(job, io::kTemporarySuffix));
  }
  return RemoveLeftovers(files, DatasetsPath(), kept).status();
}

std::string DataDir::DatabasePath() const {
  return io::JoinPath(path_, kDatabaseName);
}

std::string DataDir::DatasetsPath() const {
  return io::JoinPath(path_, kDatasetsName);
}

std::string DataDir::DatasetPath(const std::string& name) const {
  return io::JoinPath(DatasetsPath(), name);
}

std::string DataDir::UnfinishedDatasetPath(const std::string& job_id) const {
  return io::JoinPath(DatasetsPath(),
                      absl::StrCat(job_id, io::kTemporarySuffix));
}

std::string DataDir::JobsPath() const { return io::JoinPath(path_, kJobsName); }

std::string DataDir::JobPath(const std::string& id) const {
  return io::JoinPath(JobsPath(), id);
}

std::string DataDir::PlansPath() const {
  return io::JoinPath(path_, kPlansName);
}

std::string DataDir::DevicesPath() const {
  return io::JoinPath(path_, kDevicesName);
}

std::string DataDir::AttemptsPath() const {
  return io::JoinPath(path_, kAttemptsName);
}

std::string DataDir::UploadsPath() const {
  return io::JoinPath(path_, kUploadsName);
}

std::string DataDir::SocketPath() const {
  return io::JoinPath(path_, "hearth.sock");
}

std::string DataDir::FeedSocketPath() const {
  return io::JoinPath(path_, "feed.sock");
}

std::string DataDir::AuditLogPath() const {
  return io::JoinPath(path_, "audit.log");
}

std::string DataDir::TokensMarkerPath() const {
  return io::JoinPath(path_, kTokensMarkerName);
}

std::string DataDir::ReservePath() const {
  return io::JoinPath(path_, kReserveName);
}

std::string DataDir::ScratchPath() const {
  return io::JoinPath(path_, kScratchName);
}

std::string DataDir::TrashPath() const {
  return io::JoinPath(ScratchPath(), kTrashName);
}

namespace {

struct Folder {
  // Real path, which identifies the folder.
  std::string path;
  // io::FileInfo::file_system.
  uint64_t file_system = 0;
};

absl::StatusOr<Folder> FindFolder(io::FileSystem& files,
                                  const std::string& folder) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(folder);
  if (absl::IsNotFound(info.status())) {
    return absl::FailedPreconditionError("there is no such folder");
  }
  HEARTH_RETURN_IF_ERROR(info.status());
  if (!info->is_directory) {
    return absl::FailedPreconditionError("is not a folder");
  }
  HEARTH_ASSIGN_OR_RETURN(std::string path, files.RealPath(folder));
  return Folder{.path = std::move(path), .file_system = info->file_system};
}

absl::Status Prepare(io::FileSystem& files, const std::string& folder,
                     const std::string& plans) {
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(plans));
  if (chmod(plans.c_str(), 0700) != 0) {
    return ErrnoStatus(errno, plans, "chmod");
  }
  return files.SyncDirectory(folder);
}

}  // namespace

DataDisks::DataDisks() = default;

DataDisks::~DataDisks() = default;

absl::StatusOr<std::unique_ptr<DataDisks>> DataDisks::Open(
    io::FileSystem& files, const Clock& clock,
    const std::vector<std::string>& folders) {
  std::unique_ptr<DataDisks> disks(new DataDisks());
  // Folders of the flags, by real path and by file system.
  std::map<std::string, std::string> known;
  std::map<uint64_t, std::string> on_file_system;
  const auto open = [&](const std::string& folder) -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(const Folder found, FindFolder(files, folder));
    if (const auto [other, added] = known.emplace(found.path, folder); !added) {
      return absl::InvalidArgumentError(
          absl::StrCat("is the same folder as --data-disk ", other->second));
    }
    const std::string plans = io::JoinPath(folder, kFolderName);
    HEARTH_RETURN_IF_ERROR(Prepare(files, folder, plans));
    HEARTH_ASSIGN_OR_RETURN(
        FolderLock lock,
        FolderLock::Take(plans, "folder", "each needs data disks of its own"));
    disks->locks_.push_back(std::move(lock));
    HEARTH_RETURN_IF_ERROR(RemoveLeftovers(files, plans).status());
    disks->owned_.push_back(std::make_unique<plan::PlanStore>(
        files, clock, plan::PlanStore::Options{.folder = plans}));
    disks->stores_.push_back(disks->owned_.back().get());
    disks->folders_.push_back(folder);
    const auto [other, first] =
        on_file_system.emplace(found.file_system, folder);
    if (!first) {
      disks->warnings_.push_back(absl::StrCat(
          "--data-disk ", folder, " is on the file system of --data-disk ",
          other->second, ": striping features over both gains nothing"));
    }
    return absl::OkStatus();
  };
  for (const std::string& folder : folders) {
    HEARTH_RETURN_IF_ERROR(
        Annotate(open(folder), absl::StrCat("--data-disk ", folder)));
  }
  return disks;
}

}  // namespace hearth::server
