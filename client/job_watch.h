#ifndef HEARTH_CLIENT_JOB_WATCH_H_
#define HEARTH_CLIENT_JOB_WATCH_H_

#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/backoff.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// How one watched job is reached.
struct JobWatchCalls {
  /// One stream of events from a sequence number on; as Client::WatchJob but
  /// without resuming: any status of the stream is returned.
  std::function<absl::Status(uint64_t from_sequence, const EventSink& sink)>
      stream;
  /// The job's state now.
  std::function<absl::StatusOr<v1::JobState>()> state;
};

/// Watches a job through broken connections and restarts of the daemon; see
/// Client::WatchJob.
absl::Status WatchThroughRestarts(const JobWatchCalls& calls,
                                  uint64_t from_sequence, const EventSink& sink,
                                  std::stop_token stop, Backoff backoff);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_JOB_WATCH_H_
