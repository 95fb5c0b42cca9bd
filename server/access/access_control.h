#ifndef HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_
#define HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "hearth/v1/access.pb.h"

/// Callers, the roles that methods ask for, and the audit log. Light: code that
/// includes it for Caller or Credentials gets no store with it.

namespace google::protobuf {
class Descriptor;
class MethodDescriptor;
}  // namespace google::protobuf

namespace hearth::v1 {
class JobSpec;
}

namespace hearth::server {

class JobStore;
class SweepStore;
class TokenStore;
class UploadStaging;

/// Caller of a method, with their role.
struct Caller {
  /// As in v1::Job.owner; empty = unknown.
  std::string name;
  v1::Role role = v1::ROLE_UNSPECIFIED;
  /// Trace of the call; empty = it has none.
  std::string trace_id = {};
};

/// Kinds of connections that callers come from.
enum class CallerSource {
  /// The Unix socket, which tells the user id of the other side.
  kSocket,
  /// A loopback address, which anyone on the machine can reach.
  kLoopback,
  /// A TLS address, which anyone on the network can reach.
  kTls,
  /// The TLS address of the cluster, which only its members can open.
  kPeer,
};

/// Facts about the caller that a connection and a call tell.
struct Credentials {
  CallerSource source = CallerSource::kTls;
  /// User id that the kernel tells; kSocket alone.
  std::optional<uid_t> uid = std::nullopt;
  /// Name (CN) and URIs of a client certificate that TLS has verified; empty =
  /// there is none.
  std::string certificate_name = {};
  std::vector<std::string> certificate_uris = {};
  /// "authorization" entry of the call; it holds a secret.
  std::optional<std::string> authorization = std::nullopt;
};

/// Access that the method at `path` ("/hearth.v1.Jobs/SubmitJob") asks of its
/// caller, by its option in the contract; for gRPC's own services for health
/// and reflection, the least role. Nullopt for any other method: nobody may
/// call it.
std::optional<v1::Access> AccessOf(absl::string_view path);

/// The one method of the contract that takes `request`; null if none does.
const google::protobuf::MethodDescriptor* MethodOf(
    const google::protobuf::Descriptor& request);

/// "Jobs/SubmitJob"; `path` itself if it names no method of the contract.
std::string MethodName(absl::string_view path);

/// File with a line of JSON for each call that changes something, and for each
/// call that is refused:
///
///   {"time": "2026-11-23T15:04:05.678Z", "caller": "uid:1000", "role": "USER",
///    "method": "Jobs/CancelJob", "target": "train-7", "result": "OK"}
///
/// "result" is a canonical code. Of a request, a line holds only the name or id
/// that it is about. The file is only appended to, line by line; after log
/// rotation has renamed or removed it, the next line begins a new one. To
/// protect the disk, at most kFailuresPerMinute failed calls of each caller are
/// written, and as many of all unidentified callers together; the next line
/// then has "failures_left_out", the number of calls left out, of all callers.
/// A line that cannot be written goes to the daemon's log, and the call goes
/// on. Thread-safe.
class AuditLog {
 public:
  /// Opens `path`, mode 0600, or creates it. `clock` must outlive the log.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Clock& clock);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  static constexpr int kFailuresPerMinute = 600;

  /// `target`: the job, dataset, ... that the call was about; empty = none, or
  /// a call that was refused before its request was read.
  void Write(const Caller& caller, absl::string_view method,
             absl::string_view target, absl::StatusCode result)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  AuditLog(std::string path, const Clock& clock)
      : path_(std::move(path)), clock_(clock) {}

  // Counts a failure; false if its caller has had too many in this minute.
  bool MayFail(const Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the file, unless the open one still has its name.
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Clock& clock_;
  absl::Mutex mutex_;
  int file_ ABSL_GUARDED_BY(mutex_) = -1;
  // Steady time at which the minute began, and failures in it by the name of
  // the caller: "" for all callers that were not identified.
  double minute_began_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether the last line was written in part, on a full disk.
  bool is_torn_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Objects that an AccessControl uses; all must outlive it.
struct AccessDependencies {
  TokenStore& tokens;
  JobStore& jobs;
  SweepStore& sweeps;
  UploadStaging& uploads;
  AuditLog& audit;
  /// Whether imports, and files written outside the data directory, are
  /// restricted to some folders.
  bool has_import_roots = false;
  bool has_export_roots = false;
};

/// Identifies callers and decides what they may do. Whatever it does not know
/// is refused. Errors never hold a secret. Thread-safe.
class AccessControl {
 public:
  explicit AccessControl(const AccessDependencies& deps) : deps_(deps) {}

  /// Identifies the caller that presents `credentials`:
  ///
  ///   1. a call with a token has the token's name and role, over any
  ///      connection;
  ///   2. over the Unix socket, the user at the other side: an operator if they
  ///      are the daemon's own user or root, else a user;
  ///   3. over TLS, the client certificate's name, with the role that its URI
  ///      names (kRoleUri);
  ///   4. over a loopback address, an operator, as long as no token has ever
  ///      been made;
  ///   5. at the cluster's address, the member whose certificate it is, with
  ///      or without a token.
  ///
  /// UNAUTHENTICATED otherwise.
  absl::StatusOr<Caller> Identify(const Credentials& credentials);

  /// OK if these credentials may call the method at `path`. UNAUTHENTICATED;
  /// PERMISSION_DENIED for a role that is too low, for a method that is for
  /// members alone, and for all others at the members' address; UNIMPLEMENTED
  /// for methods that nobody may call. Refusals are written to the audit log.
  absl::Status CheckMethod(const Credentials& credentials,
                           absl::string_view path);

  /// OK if `caller` may change `id`. NOT_FOUND; PERMISSION_DENIED, naming the
  /// owner, if it belongs to another caller and `caller` is no operator.
  absl::Status CheckOwner(const Caller& caller, v1::Access::Owned owned,
                          const std::string& id);

  /// OK if `caller` may have a job with `spec` read and write the folders that
  /// it names. Where the daemon has no roots, only operators may, since jobs
  /// have the rights of the daemon's user. PERMISSION_DENIED, naming the flag
  /// that is missing, or for the upload of another caller.
  absl::Status CheckFolders(const Caller& caller, const v1::JobSpec& spec);

  AuditLog& audit() { return deps_.audit; }
  TokenStore& tokens() { return deps_.tokens; }

  /// Prefix of the URI by which a client certificate names its role:
  /// "urn:hearth:role:user".
  static constexpr absl::string_view kRoleUri = "urn:hearth:role:";
  /// Prefix of the URI of a member's certificate: "urn:hearth:member:host-b",
  /// where its name (CN) is host-b.
  static constexpr absl::string_view kMemberUri = "urn:hearth:member:";
  /// Prefix of the names of callers that are members.
  static constexpr absl::string_view kMemberCaller = "member:";

 private:
  // Owner of `id`. NOT_FOUND. REQUIRES: `owned` is a kind that has owners.
  absl::StatusOr<std::string> OwnerOf(v1::Access::Owned owned,
                                      const std::string& id);

  const AccessDependencies deps_;
};

/// Member of the cluster whose certificate `credentials` have: its name (CN),
/// which its kMemberUri repeats. UNAUTHENTICATED for other certificates.
absl::StatusOr<std::string> MemberOf(const Credentials& credentials);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_
