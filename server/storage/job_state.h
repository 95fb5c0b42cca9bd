#ifndef HEARTH_SERVER_STORAGE_JOB_STATE_H_
#define HEARTH_SERVER_STORAGE_JOB_STATE_H_

#include "hearth/v1/jobs.pb.h"

namespace hearth::server {

/// The life of a job:
///
///   QUEUED    -> PREPARING  a worker takes it
///   QUEUED    -> CANCELLED  CancelJob
///   PREPARING -> RUNNING    the job has what it needs
///   RUNNING   -> SUCCEEDED  the job ended as asked
///   PREPARING, RUNNING -> FAILED     by an error
///   PREPARING, RUNNING -> CANCELLED  CancelJob, at the next batch
///   PREPARING, RUNNING -> QUEUED     the daemon stops, or had been killed
///
/// SUCCEEDED, FAILED and CANCELLED are final.
bool MayFollow(v1::JobState from, v1::JobState to);

/// Whether a job in `state` is final.
bool HasEnded(v1::JobState state);

/// Whether a worker has a job in `state`.
bool IsActive(v1::JobState state);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_STATE_H_
