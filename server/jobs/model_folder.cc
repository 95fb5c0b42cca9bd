#include "server/jobs/model_folder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/file_system.h"

namespace hearth::server {

absl::StatusOr<std::string> ModelFolder(const DataDir& data_dir,
                                        const v1::Job& job) {
  if (!job.spec().has_train() || job.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("only a train job that has SUCCEEDED has a model; ",
                     job.id(), " is ", v1::JobState_Name(job.state())));
  }
  const std::string& path = job.report().train().model_path();
  if (path.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " trained no model"));
  }
  return io::JoinPath(data_dir.JobPath(job.id()),
                      path.substr(path.rfind('/') + 1));
}

}  // namespace hearth::server
