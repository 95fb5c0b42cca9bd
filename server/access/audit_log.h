#ifndef HEARTH_SERVER_ACCESS_AUDIT_LOG_H_
#define HEARTH_SERVER_ACCESS_AUDIT_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/access/caller.h"

namespace hearth::server {

/// A file with a line of JSON for each call that changes something, and for
/// each one that is refused:
///
///   {"time": "2026-11-23T15:04:05.678Z", "caller": "uid:1000", "role": "USER",
///    "method": "Jobs/CancelJob", "target": "train-7", "result": "OK"}
///
/// "result" is a canonical code. A line holds no more of a request than the
/// name or id of what it is about. The file is only ever added to, line by
/// line; if it is renamed or removed, as log rotation does, the next line
/// begins a new one. Of the calls of one caller that did not succeed, or of all
/// strangers, no more than kFailuresPerMinute are written: they must not fill
/// the disk. The next line then has "failures_left_out", the number of those of
/// all callers. A line that cannot be written is told in the daemon's log, and
/// the call goes on. Thread-safe.
class AuditLog {
 public:
  /// Opens `path`, mode 0600, or creates it. `clock` must outlive the log.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Clock& clock);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  static constexpr int kFailuresPerMinute = 600;

  /// `target`: what the call was about; empty = nothing in particular, or a
  /// call that was refused before its request was read.
  void Write(const Caller& caller, absl::string_view method,
             absl::string_view target, absl::StatusCode result)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AuditLog(std::string path, const Clock& clock)
      : path_(std::move(path)), clock_(clock) {}

  // Counts a failure; false if its caller has had too many in this minute.
  bool MayFail(const Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the file unless the one that is open still has its name.
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Clock& clock_;
  absl::Mutex mutex_;
  int file_ ABSL_GUARDED_BY(mutex_) = -1;
  // Steady time at which the minute began, and the failures in it by the name
  // of the caller: those whom a door has let in, and "" for all others.
  double minute_began_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last line was written in part, on a full disk.
  bool is_torn_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_AUDIT_LOG_H_
