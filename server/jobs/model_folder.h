#ifndef HEARTH_SERVER_JOBS_MODEL_FOLDER_H_
#define HEARTH_SERVER_JOBS_MODEL_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/data_dir.h"

namespace hearth::server {

/// The folder of a job's model, in the job's own folder: reports have the path
/// of before where the data directory was moved, or comes from a backup.
/// FAILED_PRECONDITION unless it is a train job that has SUCCEEDED and trained
/// a model.
absl::StatusOr<std::string> ModelFolder(const DataDir& data_dir,
                                        const v1::Job& job);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_MODEL_FOLDER_H_
