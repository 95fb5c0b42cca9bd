#ifndef HEARTH_SERVER_STORAGE_JOB_STATE_H_
#define HEARTH_SERVER_STORAGE_JOB_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hearth/v1/jobs.pb.h"

namespace hearth::server {

/// "train-7" of "train" and 7.
std::string MakeJobId(const std::string& kind, int64_t number);

/// The number in "train-7"; 0, which no job has, for anything else.
int64_t JobNumber(const std::string& id);

/// The life of a job:
///
///   QUEUED    -> PREPARING  a worker takes it
///   QUEUED    -> CANCELLED  CancelJob
///   QUEUED, WAITING    -> FAILED     it cannot go on from its checkpoint
///   PREPARING -> RUNNING    the job has what it needs
///   RUNNING   -> SUCCEEDED  the job ended as asked
///   PREPARING, RUNNING -> FAILED     by an error
///   PREPARING, RUNNING -> CANCELLED  CancelJob, at the next batch
///   PREPARING, RUNNING -> QUEUED     the daemon stops, or had been killed
///   FAILED, CANCELLED  -> QUEUED     ResumeJob
///   PREPARING, RUNNING -> WAITING    memory, space or a disk is not there now
///   WAITING   -> PREPARING  a worker tries it again
///   WAITING   -> CANCELLED  CancelJob
///
/// In SUCCEEDED, FAILED and CANCELLED a job has ended.
bool MayFollow(v1::JobState from, v1::JobState to);

/// Whether a job in `state` stays in it unless somebody resumes it.
bool HasEnded(v1::JobState state);

/// Whether a worker has a job in `state`.
bool IsActive(v1::JobState state);

/// The names of what jobs use; each kind has names of its own.
std::string DatasetUse(const std::string& name);
std::string ModelUse(const std::string& job_id);
std::string UploadUse(const std::string& id);

/// The names of what a job of `spec` reads or makes, and which must not go, or
/// be made by others, before it has ended.
std::vector<std::string> UsesOf(const v1::JobSpec& spec);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_STATE_H_
