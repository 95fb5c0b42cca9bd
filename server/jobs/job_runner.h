#ifndef HEARTH_SERVER_JOBS_JOB_RUNNER_H_
#define HEARTH_SERVER_JOBS_JOB_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/job/job_environment.h"
#include "engine/metrics/registry.h"
#include "server/jobs/retired_series.h"
#include "server/jobs/scheduler.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// The parts that jobs use; all must outlive the runner.
struct JobRunnerParts {
  const job::JobEnvironment environment;
  const DataDir& data_dir;
  JobStore& store;
  metrics::Registry& registry;
  RetiredSeries& retired_series;
  /// The files that imports read, and those that exports and generated folders
  /// are made of (see io::OpenRooted); null = the environment's.
  io::FileSystem* import_files = nullptr;
  io::FileSystem* export_files = nullptr;
  /// The path of an upload that is whole, by its id.
  std::function<absl::StatusOr<std::string>(const std::string& id)>
      upload_source = nullptr;
  /// Takes a folder away, without waiting until all of it is removed; null =
  /// the environment's files remove it.
  std::function<absl::Status(const std::string& path)> throw_away = nullptr;
};

/// A runner of jobs of every kind by the engine. A job that was
/// interrupted after its result had appeared, but before that was noted,
/// succeeds when it is run again.
std::unique_ptr<JobRunner> NewJobRunner(const JobRunnerParts& parts,
                                        std::vector<std::string> import_roots);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_RUNNER_H_
