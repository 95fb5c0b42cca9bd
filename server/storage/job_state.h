#ifndef HEARTH_SERVER_STORAGE_JOB_STATE_H_
#define HEARTH_SERVER_STORAGE_JOB_STATE_H_

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hearth/v1/jobs.pb.h"

/// Ids and states of jobs, names of data that jobs use, and small values of the
/// job store's interface.

namespace hearth::server {

/// Converts nanoseconds since 1970, as tables store times, to a Timestamp and
/// back.
google::protobuf::Timestamp TimestampOf(int64_t nanoseconds);
int64_t NanosecondsOf(const google::protobuf::Timestamp& timestamp);

/// "train-7" for "train" and 7.
std::string MakeJobId(const std::string& kind, int64_t number);

/// Number in "train-7"; 0, which no job has, for anything else.
int64_t JobNumber(const std::string& id);

/// Steps between the states of a job:
///
///   QUEUED             -> PREPARING  a worker takes it
///   QUEUED             -> CANCELLED  CancelJob
///   QUEUED, WAITING    -> FAILED     it cannot go on from its checkpoint
///   PREPARING          -> RUNNING    the job has what it needs
///   RUNNING            -> SUCCEEDED  the job ended as asked
///   PREPARING, RUNNING -> FAILED     by an error
///   PREPARING, RUNNING -> CANCELLED  CancelJob, at the next batch
///   PREPARING, RUNNING -> QUEUED     the daemon stops, or had been killed
///   FAILED, CANCELLED  -> QUEUED     ResumeJob
///   PREPARING, RUNNING -> WAITING    memory, space or a disk is missing now
///   WAITING            -> PREPARING  a worker tries it again
///   WAITING            -> CANCELLED  CancelJob
///
/// A job in SUCCEEDED, FAILED or CANCELLED has ended.
bool MayFollow(v1::JobState from, v1::JobState to);

/// Whether a job in `state` stays in it unless it is resumed.
bool HasEnded(v1::JobState state);

/// Whether a worker runs a job in `state`.
bool IsActive(v1::JobState state);

/// A new state of a job, with the error or the report that belongs to it.
struct StateUpdate {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  /// Error of a job that FAILED.
  std::optional<v1::JobError> error = std::nullopt;
  /// Report of a job that SUCCEEDED.
  std::optional<v1::JobReport> report = std::nullopt;
  /// Resource that a WAITING job waits for.
  std::string waiting_reason = {};
};

/// Caller and call that submitted a job.
struct JobOrigin {
  /// As in v1::Job; empty owner = callers are not identified, empty trace = the
  /// call had none.
  std::string owner = {};
  std::string trace_id = {};
};

/// Names of data that jobs use; each kind of data has names of its own.
std::string DatasetUse(const std::string& name);
std::string ModelUse(const std::string& job_id);
std::string UploadUse(const std::string& id);

/// Names of data that a job of `spec` reads or makes: until the job has ended,
/// the data must not be deleted, or made by other jobs.
std::vector<std::string> UsesOf(const v1::JobSpec& spec);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_STATE_H_
