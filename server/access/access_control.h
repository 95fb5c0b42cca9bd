#ifndef HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_
#define HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "hearth/v1/access.pb.h"
#include "hearth/v1/spec.pb.h"
#include "server/access/caller.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

/// Access that the method at `path` ("/hearth.v1.Jobs/SubmitJob") asks of its
/// caller, by its option in the contract; of gRPC's own services for health and
/// reflection, the least role. Nullopt for any other method: nobody may call
/// it.
std::optional<v1::Access> AccessOf(absl::string_view path);

/// The method of the contract that takes `request`, which only one does; null
/// if none does.
const google::protobuf::MethodDescriptor* MethodOf(
    const google::protobuf::Descriptor& request);

/// "Jobs/SubmitJob", or what `path` holds if it names no method of the
/// contract.
std::string MethodName(absl::string_view path);

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

/// The parts that an AccessControl uses; all must outlive it.
struct AccessParts {
  TokenStore& tokens;
  JobStore& jobs;
  SweepStore& sweeps;
  UploadStaging& uploads;
  AuditLog& audit;
  /// Whether imports, and what is written outside the data directory, are kept
  /// to some folders.
  bool has_import_roots = false;
  bool has_export_roots = false;
};

/// Says who a caller is and what they may do. What it does not know is
/// refused. Errors never hold a secret. Thread-safe.
class AccessControl {
 public:
  explicit AccessControl(const AccessParts& parts) : parts_(parts) {}

  /// Who presents these credentials:
  ///
  ///   1. a call with a token is the token's, wherever it comes in;
  ///   2. over the Unix socket, it is the user's of the other side: an operator
  ///      if they are the daemon's own user or root, else a user;
  ///   3. over TLS, it is the client certificate's, whose URI names its role
  ///      (kRoleUri);
  ///   4. over a loopback address it is anyone's of this machine, an operator,
  ///      as long as no token has ever been made.
  ///
  /// UNAUTHENTICATED if it is nobody's.
  absl::StatusOr<Caller> Identify(const Credentials& credentials);

  /// OK if these credentials may call the method at `path`. UNAUTHENTICATED;
  /// PERMISSION_DENIED for a role that is too low, and for methods that nobody
  /// may call. Refusals are written to the audit log.
  absl::Status CheckMethod(const Credentials& credentials,
                           absl::string_view path);

  /// OK if `caller` may change `id`. NOT_FOUND; PERMISSION_DENIED, naming the
  /// owner, for what is not its own, unless it is an operator.
  absl::Status CheckOwner(const Caller& caller, v1::Access::Owned owned,
                          const std::string& id);

  /// OK if `caller` may have a job with `spec` read and write where it says.
  /// Only operators may where the daemon has no roots, since it would be done
  /// with the rights of the daemon's user. PERMISSION_DENIED, naming the flag
  /// that is missing. PERMISSION_DENIED also for the upload of
  /// somebody else.
  absl::Status CheckFolders(const Caller& caller, const v1::JobSpec& spec);

  AuditLog& audit() { return parts_.audit; }
  TokenStore& tokens() { return parts_.tokens; }

  /// The beginning of the URI by which a client certificate names its role:
  /// "urn:hearth:role:user".
  static constexpr absl::string_view kRoleUri = "urn:hearth:role:";

 private:
  // NOT_FOUND. REQUIRES: a kind of thing that has an owner.
  absl::StatusOr<std::string> OwnerOf(v1::Access::Owned owned,
                                      const std::string& id);

  const AccessParts parts_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_
