#include "server/access/access_control.h"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "hearth/v1/spec.pb.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/log.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

namespace {

constexpr char kPackage[] = "/hearth.v1.";

// gRPC's own services.
constexpr absl::string_view kCommonServices[] = {
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1alpha.ServerReflection/",
};

}  // namespace

std::optional<v1::Access> AccessOf(absl::string_view path) {
  for (const absl::string_view service : kCommonServices) {
    if (!absl::StartsWith(path, service)) continue;
    v1::Access access;
    access.set_least_role(v1::VIEWER);
    return access;
  }
  if (!absl::StartsWith(path, kPackage)) return std::nullopt;
  const std::string name = absl::StrReplaceAll(path.substr(1), {{"/", "."}});
  const google::protobuf::MethodDescriptor* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          name);
  if (method == nullptr) return std::nullopt;
  const v1::Access& access = method->options().GetExtension(v1::access);
  if (access.least_role() == v1::ROLE_UNSPECIFIED) return std::nullopt;
  return access;
}

const google::protobuf::MethodDescriptor* MethodOf(
    const google::protobuf::Descriptor& request) {
  const google::protobuf::FileDescriptor& file = *request.file();
  for (int i = 0; i < file.service_count(); ++i) {
    for (int j = 0; j < file.service(i)->method_count(); ++j) {
      const auto* method = file.service(i)->method(j);
      if (method->input_type() == &request) return method;
    }
  }
  return nullptr;
}

std::string MethodName(absl::string_view path) {
  absl::ConsumePrefix(&path, kPackage);
  return std::string(path);
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(
    const std::string& path, const Clock& clock) {
  std::unique_ptr<AuditLog> log(new AuditLog(path, clock));
  absl::MutexLock lock(&log->mutex_);
  HEARTH_RETURN_IF_ERROR(log->Reopen());
  return log;
}

AuditLog::~AuditLog() {
  if (file_ >= 0) close(file_);
}

bool AuditLog::MayFail(const Caller& caller) {
  const double now = clock_.SteadySeconds();
  if (now - minute_began_ >= 60) {
    minute_began_ = now;
    failures_.clear();
  }
  return ++failures_[caller.name] <= kFailuresPerMinute;
}

void AuditLog::Write(const Caller& caller, absl::string_view method,
                     absl::string_view target, absl::StatusCode result) {
  absl::MutexLock lock(&mutex_);
  if (result != absl::StatusCode::kOk && !MayFail(caller)) {
    ++left_out_;
    return;
  }
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", clock_.Now(),
                                  absl::UTCTimeZone());
  line["caller"] = caller.name;
  line["role"] =
      caller.role == v1::ROLE_UNSPECIFIED ? "" : v1::Role_Name(caller.role);
  line["method"] = std::string(method);
  line["target"] = std::string(target);
  if (!caller.trace_id.empty()) line["trace_id"] = caller.trace_id;
  line["result"] = absl::StatusCodeToString(result);
  if (left_out_ > 0) line["failures_left_out"] = std::exchange(left_out_, 0);
  const std::string text =
      line.dump(-1, ' ', /*ensure_ascii=*/true,
                nlohmann::ordered_json::error_handler_t::replace);
  const absl::Status status = Append(absl::StrCat(text, "\n"));
  if (!status.ok()) {
    LogError("audit log: ", status.message(), ": lost ", text);
  }
}

absl::Status AuditLog::Reopen() {
  struct stat named {};
  struct stat opened {};
  if (file_ >= 0 && stat(path_.c_str(), &named) == 0 &&
      fstat(file_, &opened) == 0 && named.st_ino == opened.st_ino &&
      named.st_dev == opened.st_dev) {
    return absl::OkStatus();
  }
  const int file =
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return ErrnoStatus(errno, path_, "open");
  if (file_ >= 0) close(file_);
  file_ = file;
  is_torn_ = false;
  return absl::OkStatus();
}

absl::Status AuditLog::Append(std::string line) {
  HEARTH_RETURN_IF_ERROR(Reopen());
  if (is_torn_) line = absl::StrCat("\n", line);
  const ssize_t written = write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    is_torn_ = false;
    return absl::OkStatus();
  }
  if (written < 0) return ErrnoStatus(errno, path_, "write");
  is_torn_ = written > 0;
  return absl::ResourceExhaustedError(
      absl::StrCat(path_, ": only ", written, " bytes could be written"));
}

namespace {

// Bytes of a method's name in the audit log: callers may send any name.
constexpr size_t kMaxMethodBytes = 128;

constexpr char kHowToGiveTokens[] =
    "give one with --token-file FILE or HEARTH_TOKEN_FILE";

absl::StatusOr<Caller> OfToken(TokenStore& tokens,
                               const std::string& authorization) {
  absl::string_view secret = authorization;
  if (!absl::ConsumePrefix(&secret, "Bearer ")) {
    return absl::UnauthenticatedError(
        "the authorization of a call must be \"Bearer TOKEN\"");
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::Token token, tokens.Check(secret));
  return Caller{.name = absl::StrCat("token:", token.name()),
                .role = token.role()};
}

Caller OfUser(uid_t uid) {
  const bool is_own = uid == geteuid() || uid == 0;
  return Caller{.name = absl::StrCat("uid:", uid),
                .role = is_own ? v1::OPERATOR : v1::USER};
}

absl::StatusOr<Caller> OfCertificate(const Credentials& credentials) {
  std::optional<v1::Role> named;
  for (absl::string_view uri : credentials.certificate_uris) {
    if (!absl::ConsumePrefix(&uri, AccessControl::kRoleUri)) continue;
    v1::Role role = v1::ROLE_UNSPECIFIED;
    // A certificate with several roles has none.
    if (named.has_value() ||
        !v1::Role_Parse(absl::AsciiStrToUpper(uri), &role) ||
        role == v1::ROLE_UNSPECIFIED) {
      return absl::UnauthenticatedError(
          "the client certificate names no role that there is, or several");
    }
    named = role;
  }
  if (!named.has_value()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the client certificate names no role: it must have a URI "
                     "as ",
                     AccessControl::kRoleUri,
                     "user among its alternative names (hearth admin certs "
                     "makes such), or a token must come with it"));
  }
  return Caller{
      .name = absl::StrCat("certificate:", credentials.certificate_name),
      .role = *named};
}

// The door has checked that the certificate is a member's (MemberOf).
absl::StatusOr<Caller> OfMember(const Credentials& credentials) {
  HEARTH_ASSIGN_OR_RETURN(const std::string member, MemberOf(credentials));
  return Caller{.name = absl::StrCat(AccessControl::kMemberCaller, member),
                .role = v1::USER};
}

}  // namespace

absl::StatusOr<std::string> MemberOf(const Credentials& credentials) {
  const std::string uri =
      absl::StrCat(AccessControl::kMemberUri, credentials.certificate_name);
  const std::vector<std::string>& uris = credentials.certificate_uris;
  if (!credentials.certificate_name.empty() && uris.size() == 1 &&
      uris[0] == uri) {
    return credentials.certificate_name;
  }
  return absl::UnauthenticatedError(
      "the certificate is not of a member of a cluster: hearth admin certs "
      "--member makes such");
}

absl::StatusOr<Caller> AccessControl::Identify(const Credentials& credentials) {
  if (credentials.source == CallerSource::kPeer) return OfMember(credentials);
  if (credentials.authorization.has_value()) {
    return OfToken(deps_.tokens, *credentials.authorization);
  }
  switch (credentials.source) {
    case CallerSource::kSocket:
      if (credentials.uid.has_value()) return OfUser(*credentials.uid);
      break;
    case CallerSource::kTls:
      if (!credentials.certificate_name.empty()) {
        return OfCertificate(credentials);
      }
      break;
    case CallerSource::kLoopback:
      if (!deps_.tokens.required()) {
        return Caller{.name = "local", .role = v1::OPERATOR};
      }
      break;
    case CallerSource::kPeer:
      break;
  }
  return absl::UnauthenticatedError(
      absl::StrCat("hearthd asks for a token: ", kHowToGiveTokens));
}

absl::Status AccessControl::CheckMethod(const Credentials& credentials,
                                        absl::string_view path) {
  const absl::StatusOr<Caller> caller = Identify(credentials);
  absl::Status status = caller.status();
  if (status.ok()) {
    const std::optional<v1::Access> access = AccessOf(path);
    if (!access.has_value()) {
      // gRPC answers so for a method that does not exist.
      return absl::UnimplementedError("");
    }
    const bool is_peer = credentials.source == CallerSource::kPeer;
    if (access->peers() != is_peer) {
      status = absl::PermissionDeniedError(absl::StrCat(
          MethodName(path),
          is_peer ? " is not for members of the cluster"
                  : " is for members of the cluster, at their address, alone"));
    } else if (caller->role < access->least_role()) {
      status = absl::PermissionDeniedError(absl::StrCat(
          MethodName(path), " asks for the role ",
          absl::AsciiStrToLower(v1::Role_Name(access->least_role())), "; ",
          caller->name, " has ",
          absl::AsciiStrToLower(v1::Role_Name(caller->role))));
    } else {
      return absl::OkStatus();
    }
  }
  deps_.audit.Write(caller.ok() ? *caller : Caller{},
                    MethodName(path).substr(0, kMaxMethodBytes), "",
                    status.code());
  return status;
}

absl::StatusOr<std::string> AccessControl::OwnerOf(v1::Access::Owned owned,
                                                   const std::string& id) {
  if (owned == v1::Access::JOB) return deps_.jobs.GetOwner(id);
  if (owned == v1::Access::UPLOAD) return deps_.uploads.GetOwner(id);
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, deps_.sweeps.Get(id));
  return sweep.owner();
}

absl::Status AccessControl::CheckOwner(const Caller& caller,
                                       v1::Access::Owned owned,
                                       const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(const std::string owner, OwnerOf(owned, id));
  if (caller.role >= v1::OPERATOR || (owner == caller.name && !owner.empty())) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      id, " belongs to ", owner.empty() ? std::string("nobody") : owner,
      ", not to ", caller.name,
      ": only its owner and operators may change it"));
}

absl::Status AccessControl::CheckFolders(const Caller& caller,
                                         const v1::JobSpec& spec) {
  // An upload came from a client, not from the machine, but may be another
  // client's.
  if (!spec.import().upload().empty()) {
    const absl::Status owned =
        CheckOwner(caller, v1::Access::UPLOAD, spec.import().upload());
    // The upload is gone when a request is repeated whose job has ended.
    return absl::IsNotFound(owned) ? absl::OkStatus() : owned;
  }
  if (caller.role >= v1::OPERATOR) return absl::OkStatus();
  const bool reads = spec.has_import() && spec.import().from_member().empty();
  const bool writes = !spec.generate().destination().empty() ||
                      spec.has_export_dataset() || spec.has_export_();
  const char* missing = reads && !deps_.has_import_roots    ? "--import-root"
                        : writes && !deps_.has_export_roots ? "--export-root"
                                                            : nullptr;
  if (missing == nullptr) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "only operators may name any folder of the daemon's machine: others need "
      "a hearthd that was started with ",
      missing, ", which says where they may ", reads ? "read" : "write"));
}

}  // namespace hearth::server
