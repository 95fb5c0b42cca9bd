#ifndef HEARTH_SERVER_STORAGE_JOB_USES_H_
#define HEARTH_SERVER_STORAGE_JOB_USES_H_

#include <string>
#include <vector>

#include "hearth/v1/jobs.pb.h"

namespace hearth::server {

/// The names of what jobs use; each kind has names of its own.
std::string DatasetUse(const std::string& name);
std::string ModelUse(const std::string& job_id);
std::string UploadUse(const std::string& id);

/// The names of what a job of `spec` reads or makes, and which must not go, or
/// be made by others, before it has ended.
std::vector<std::string> UsesOf(const v1::JobSpec& spec);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_USES_H_
