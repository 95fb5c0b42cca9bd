#include "server/access/access_control.h"

#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/access/method_access.h"

namespace hearth::server {
namespace {

// Strangers may call anything.
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

}  // namespace

absl::StatusOr<Caller> AccessControl::Identify(const Credentials& credentials) {
  if (credentials.authorization.has_value()) {
    return OfToken(parts_.tokens, *credentials.authorization);
  }
  switch (credentials.entrance) {
    case Entrance::kSocket:
      if (credentials.uid.has_value()) return OfUser(*credentials.uid);
      break;
    case Entrance::kTls:
      if (!credentials.certificate_name.empty()) {
        return OfCertificate(credentials);
      }
      break;
    case Entrance::kLoopback:
      if (!parts_.tokens.required()) {
        return Caller{.name = "local", .role = v1::OPERATOR};
      }
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
      // As gRPC says of a method that is not there.
      return absl::UnimplementedError("");
    }
    if (caller->role >= access->least_role()) return absl::OkStatus();
    status = absl::PermissionDeniedError(
        absl::StrCat(MethodName(path), " asks for the role ",
                     absl::AsciiStrToLower(v1::Role_Name(access->least_role())),
                     "; ", caller->name, " has ",
                     absl::AsciiStrToLower(v1::Role_Name(caller->role))));
  }
  parts_.audit.Write(caller.ok() ? *caller : Caller{},
                     MethodName(path).substr(0, kMaxMethodBytes), "",
                     status.code());
  return status;
}

absl::StatusOr<std::string> AccessControl::OwnerOf(v1::Access::Owned owned,
                                                   const std::string& id) {
  if (owned == v1::Access::JOB) return parts_.jobs.GetOwner(id);
  if (owned == v1::Access::UPLOAD) return parts_.uploads.GetOwner(id);
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, parts_.sweeps.Get(id));
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
    // It is not there any more when a request is repeated whose job has ended.
    return absl::IsNotFound(owned) ? absl::OkStatus() : owned;
  }
  if (caller.role >= v1::OPERATOR) return absl::OkStatus();
  const bool reads = spec.has_import();
  const bool writes = !spec.generate().destination().empty() ||
                      spec.has_export_dataset() || spec.has_export_();
  const char* missing = reads && !parts_.has_import_roots    ? "--import-root"
                        : writes && !parts_.has_export_roots ? "--export-root"
                                                             : nullptr;
  if (missing == nullptr) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "only operators may name any folder of the daemon's machine: others need "
      "a hearthd that was started with ",
      missing, ", which says where they may ", reads ? "read" : "write"));
}

}  // namespace hearth::server
