#ifndef HEARTH_SERVER_STORAGE_BACKUP_H_
#define HEARTH_SERVER_STORAGE_BACKUP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"

namespace hearth::server {

struct BackupResult {
  int64_t jobs = 0;
  int64_t models = 0;
  /// Bytes of all files.
  uint64_t size_bytes = 0;
};

/// Copies what a data directory needs to list the jobs again and to export
/// their models to the new folder `destination`, an absolute path: hearth.db as
/// it is at one moment, and of each job's folder its copy of the job and its
/// model. The folder is a data directory without datasets and plans. Whole or
/// absent, durable; jobs go on meanwhile. INVALID_ARGUMENT for a folder in the
/// data directory, ALREADY_EXISTS if there is something.
absl::StatusOr<BackupResult> BackUp(io::FileSystem& files,
                                    const DataDir& data_dir,
                                    const JobStore& store,
                                    const std::string& destination);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_BACKUP_H_
