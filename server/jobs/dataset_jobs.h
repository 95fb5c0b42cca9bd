#ifndef HEARTH_SERVER_JOBS_DATASET_JOBS_H_
#define HEARTH_SERVER_JOBS_DATASET_JOBS_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/observer.h"
#include "hearth/v1/report.pb.h"
#include "hearth/v1/spec.pb.h"
#include "server/storage/data_dir.h"

namespace hearth::server {

class Cluster;

/// Checks that the folder or file `path` may be imported from. NOT_FOUND if it
/// does not exist, INVALID_ARGUMENT if it is neither. With `roots` (none = any
/// path): PERMISSION_DENIED unless it and its files lie under one of them and
/// are reached without symbolic links, as the kernel resolves them (openat2
/// with RESOLVE_BENEATH). Checked when a job is submitted and again when it
/// runs. CANCELLED when `stop` is requested.
absl::Status CheckImportSource(const std::string& path,
                               const std::vector<std::string>& roots,
                               std::stop_token stop = {});

/// Parts of the daemon that jobs on datasets use; all outlive the jobs.
struct DatasetJobDependencies {
  io::FileSystem& files;
  const Clock& clock;
  const DataDir& data_dir;
};

/// Functions that run jobs on datasets with the engine. A job that makes a
/// dataset continues with the files that an earlier run of the job `job_id` has
/// left in DataDir::UnfinishedDatasetPath, and leaves its own there when
/// interrupted. A job that was interrupted after its result had appeared, but
/// before the store noted it, succeeds when it runs again. CANCELLED when
/// `stop` is requested.

absl::StatusOr<v1::JobReport> RunImport(
    const DatasetJobDependencies& dependencies, const std::string& job_id,
    const v1::ImportSpec& spec, const std::vector<std::string>& import_roots,
    job::Observer& observer, std::stop_token stop);

/// Copies the dataset `spec.name` from the member `spec.from_member` of
/// `cluster`; null = there is none: FAILED_PRECONDITION. NOT_FOUND for a member
/// that its file does not name; errors as of CopyDataset.
absl::StatusOr<v1::JobReport> RunCopy(
    const DatasetJobDependencies& dependencies, Cluster* cluster,
    const std::string& job_id, const v1::ImportSpec& spec,
    job::Observer& observer, std::stop_token stop);

absl::StatusOr<v1::JobReport> RunGenerate(
    const DatasetJobDependencies& dependencies, const std::string& job_id,
    const v1::GenerateSpec& spec, job::Observer& observer,
    std::stop_token stop);

/// DATA_LOSS, naming the damaged blocks, if there are any.
absl::StatusOr<v1::JobReport> RunVerify(
    const DatasetJobDependencies& dependencies, const v1::VerifySpec& spec,
    job::Observer& observer, std::stop_token stop);

/// Maximum memory of an export of a dataset, in bytes.
inline constexpr uint64_t kMostExportBytes = uint64_t{1} << 30;

absl::StatusOr<v1::JobReport> RunExportDataset(
    const DatasetJobDependencies& dependencies,
    const v1::ExportDatasetSpec& spec, uint64_t memory_limit_bytes,
    job::Observer& observer, std::stop_token stop);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_DATASET_JOBS_H_
