// A backup, step by step:
//   1. make DESTINATION.tmp;
//   2. copy the database; then the folders, so that a model which the copy of
//      the database tells of is there to be copied. Jobs that come or end in
//      between are in the folders alone: a start takes them from there;
//   3. sync all, rename.
#include "server/storage/backup.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_recovery.h"

namespace hearth::server {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr char kModelFolder[] = "model";

class Backup {
 public:
  Backup(io::FileSystem& files, const DataDir& data_dir, const JobStore& store,
         std::string folder)
      : files_(files),
        data_dir_(data_dir),
        store_(store),
        folder_(std::move(folder)) {}

  absl::StatusOr<BackupResult> Run() {
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
    HEARTH_RETURN_IF_ERROR(CopyDatabase());
    for (const char* name : {DataDir::kFormatName, DataDir::kTokensMarkerName,
                             JobFolders::kLastDeletedName}) {
      HEARTH_RETURN_IF_ERROR(CopyFile(io::JoinPath(data_dir_.path(), name),
                                      io::JoinPath(folder_, name)));
    }
    HEARTH_RETURN_IF_ERROR(CopyJobs());
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
    return result_;
  }

 private:
  // SQLite writes by path, so it does where nobody else can lead it astray; the
  // copy then goes the way of all other files.
  absl::Status CopyDatabase() {
    const std::string copy =
        io::JoinPath(data_dir_.ScratchPath(), DataDir::kDatabaseName);
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(data_dir_.ScratchPath()));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(copy));
    absl::Status status = store_.CopyTo(copy);
    if (status.ok()) {
      status = CopyFile(copy, io::JoinPath(folder_, DataDir::kDatabaseName));
    }
    files_.RemoveTree(copy).IgnoreError();
    return status;
  }

  absl::Status CopyJobs() {
    const std::string jobs = io::JoinPath(folder_, DataDir::kJobsName);
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(jobs));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                            files_.List(data_dir_.JobsPath()));
    for (const std::string& id : ids) {
      const std::string from = data_dir_.JobPath(id);
      // A job that is being deleted has no such file any more.
      const absl::Status there =
          files_.Stat(io::JoinPath(from, JobFolders::kCopyName)).status();
      if (absl::IsNotFound(there)) continue;
      HEARTH_RETURN_IF_ERROR(there);
      HEARTH_RETURN_IF_ERROR(CopyJob(from, io::JoinPath(jobs, id)));
    }
    return files_.SyncDirectory(jobs);
  }

  absl::Status CopyJob(const std::string& from, const std::string& to) {
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(to));
    HEARTH_RETURN_IF_ERROR(CopyFile(io::JoinPath(from, JobFolders::kCopyName),
                                    io::JoinPath(to, JobFolders::kCopyName)));
    ++result_.jobs;
    const std::string model = io::JoinPath(from, kModelFolder);
    const absl::StatusOr<std::vector<std::string>> names = files_.List(model);
    if (names.ok()) {
      const std::string copy = io::JoinPath(to, kModelFolder);
      HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(copy));
      for (const std::string& name : *names) {
        HEARTH_RETURN_IF_ERROR(
            CopyFile(io::JoinPath(model, name), io::JoinPath(copy, name)));
      }
      HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(copy));
      ++result_.models;
    } else if (!absl::IsNotFound(names.status())) {
      return names.status();
    }
    return files_.SyncDirectory(to);
  }

  // Files that go while they are looked for are those of deleted jobs.
  absl::Status CopyFile(const std::string& from, const std::string& to) {
    absl::StatusOr<std::unique_ptr<io::ReadableFile>> source =
        files_.OpenForRead(from);
    if (absl::IsNotFound(source.status())) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(source.status());
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, (*source)->Info());
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> target,
                            files_.Create(to));
    std::vector<std::byte> chunk(std::min(kChunkBytes, info.size_bytes));
    for (uint64_t offset = 0; offset < info.size_bytes;
         offset += chunk.size()) {
      chunk.resize(std::min(kChunkBytes, info.size_bytes - offset));
      HEARTH_RETURN_IF_ERROR((*source)->Read(offset, absl::MakeSpan(chunk)));
      HEARTH_RETURN_IF_ERROR(target->Append(chunk));
    }
    result_.size_bytes += info.size_bytes;
    HEARTH_RETURN_IF_ERROR(target->Sync());
    return target->Close();
  }

  io::FileSystem& files_;
  const DataDir& data_dir_;
  const JobStore& store_;
  const std::string folder_;
  BackupResult result_;
};

}  // namespace

absl::StatusOr<BackupResult> BackUp(io::FileSystem& files,
                                    const DataDir& data_dir,
                                    const JobStore& store,
                                    const std::string& destination) {
  HEARTH_RETURN_IF_ERROR(CheckOutside(files, data_dir.path(), destination));
  if (files.Stat(destination).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, " exists; choose a new folder"));
  }
  const std::string unfinished =
      absl::StrCat(destination, io::kTemporarySuffix);
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(unfinished));
  absl::StatusOr<BackupResult> result =
      Backup(files, data_dir, store, unfinished).Run();
  absl::Status status = result.status();
  if (status.ok()) status = files.Rename(unfinished, destination);
  if (!status.ok()) {
    // The first error is the one to tell.
    files.RemoveTree(unfinished).IgnoreError();
    return status;
  }
  HEARTH_RETURN_IF_ERROR(files.SyncDirectory(io::ParentDirectory(destination)));
  return result;
}

}  // namespace hearth::server
