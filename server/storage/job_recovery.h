#ifndef HEARTH_SERVER_STORAGE_JOB_RECOVERY_H_
#define HEARTH_SERVER_STORAGE_JOB_RECOVERY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "server/storage/job_folders.h"
#include "server/storage/job_rows.h"
#include "server/storage/sqlite.h"

/// Recovery at a start from a database of jobs that is missing, damaged or not
/// that of the folders of jobs. Nothing is deleted. All that an operator should
/// know is logged, and added to `warnings`.

namespace hearth::server {

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
