#include "server/access/entrances.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/trace_parent.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

// The property of a connection that tells its entrance. Clients cannot set it:
// those that come of certificates have other names.
constexpr char kEntranceProperty[] = "hearth-entrance";
constexpr absl::string_view kSocket = "socket:";
constexpr absl::string_view kLoopback = "loopback";
constexpr absl::string_view kTls = "tls";

std::string ToString(grpc::string_ref text) {
  return std::string(text.data(), text.size());
}

std::string EntranceText(Entrance entrance, int64_t uid) {
  switch (entrance) {
    case Entrance::kSocket:
      return absl::StrCat(kSocket, uid);
    case Entrance::kLoopback:
      return std::string(kLoopback);
    case Entrance::kTls:
      return std::string(kTls);
  }
  return "";
}

Credentials CredentialsOf(
    const grpc::AuthContext& context,
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  Credentials credentials;
  // A connection that no door has marked is taken for a stranger's, over TLS.
  for (const grpc::string_ref& value :
       context.FindPropertyValues(kEntranceProperty)) {
    const std::string text = ToString(value);
    absl::string_view rest = text;
    if (rest == kLoopback) credentials.entrance = Entrance::kLoopback;
    if (absl::ConsumePrefix(&rest, kSocket)) {
      credentials.entrance = Entrance::kSocket;
      uid_t uid = 0;
      if (absl::SimpleAtoi(rest, &uid)) credentials.uid = uid;
    }
  }
  if (credentials.entrance == Entrance::kTls) {
    for (const grpc::string_ref& value :
         context.FindPropertyValues("x509_common_name")) {
      credentials.certificate_name = ToString(value);
    }
    for (const grpc::string_ref& value :
         context.FindPropertyValues("peer_uri")) {
      credentials.certificate_uris.push_back(ToString(value));
    }
  }
  const auto [first, last] = metadata.equal_range("authorization");
  // Of several none is meant: they are refused as no token.
  for (auto entry = first; entry != last; ++entry) {
    credentials.authorization =
        entry == first ? ToString(entry->second) : std::string();
  }
  return credentials;
}

}  // namespace

grpc::Status Door::Process(const InputMetadata& metadata,
                           grpc::AuthContext* context, OutputMetadata*,
                           OutputMetadata*) {
  {
    absl::MutexLock lock(&mutex_);
    if (context->FindPropertyValues(kEntranceProperty).empty()) {
      context->AddProperty(kEntranceProperty, EntranceText(entrance_, uid_));
    }
  }
  const auto path = metadata.find(":path");
  if (path == metadata.end()) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "a call without a path");
  }
  return ToGrpcStatus(access_.CheckMethod(CredentialsOf(*context, metadata),
                                          ToString(path->second)));
}

Credentials CredentialsOf(const grpc::ServerContextBase& context) {
  return CredentialsOf(*context.auth_context(), context.client_metadata());
}

std::string TraceIdOf(const grpc::ServerContextBase& context) {
  const auto entry = context.client_metadata().find("traceparent");
  if (entry == context.client_metadata().end()) return "";
  return hearth::TraceIdOf(
      absl::string_view(entry->second.data(), entry->second.size()));
}

}  // namespace hearth::server
