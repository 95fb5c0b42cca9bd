#include "server/storage/data_disks.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::server {
namespace {

struct Folder {
  // The real path, which tells it from others.
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

absl::Status RemoveLeftovers(io::FileSystem& files, const std::string& plans) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files.List(plans));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, io::kTemporarySuffix)) continue;
    HEARTH_RETURN_IF_ERROR(files.RemoveTree(io::JoinPath(plans, name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDisks>> DataDisks::Open(
    io::FileSystem& files, const Clock& clock,
    const std::vector<std::string>& folders) {
  std::unique_ptr<DataDisks> disks(new DataDisks());
  // The flags' folders by real path, and by file system.
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
    HEARTH_RETURN_IF_ERROR(RemoveLeftovers(files, plans));
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
