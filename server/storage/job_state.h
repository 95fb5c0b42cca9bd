#ifndef HEARTH_SERVER_STORAGE_JOB_STATE_H_
#define HEARTH_SERVER_STORAGE_JOB_STATE_H_

#include "hearth/v1/jobs.pb.h"

namespace hearth::server {

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

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_STATE_H_
