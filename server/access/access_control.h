#ifndef HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_
#define HEARTH_SERVER_ACCESS_ACCESS_CONTROL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hearth/v1/spec.pb.h"
#include "server/access/audit_log.h"
#include "server/access/caller.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

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
