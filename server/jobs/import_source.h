#ifndef HEARTH_SERVER_JOBS_IMPORT_SOURCE_H_
#define HEARTH_SERVER_JOBS_IMPORT_SOURCE_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hearth::server {

/// Whether the folder or file `path` may be imported from. NOT_FOUND or
/// INVALID_ARGUMENT if it is neither. With `roots` (none = any path):
/// PERMISSION_DENIED unless it and its files lie under one of them and are
/// reached without symbolic links, as the kernel resolves them (openat2 with
/// RESOLVE_BENEATH). Checked when a job is submitted and again when it runs.
/// CANCELLED when `stop` is requested.
absl::Status CheckImportSource(const std::string& path,
                               const std::vector<std::string>& roots,
                               std::stop_token stop = {});

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_IMPORT_SOURCE_H_
