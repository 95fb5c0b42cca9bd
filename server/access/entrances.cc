#include "server/access/entrances.h"

#include <grpcpp/security/server_credentials.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/base/trace_parent.h"
#include "engine/io/descriptor.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

// The properties of a connection that tell its party. Clients cannot set them.
constexpr char kEntranceProperty[] = "hearth-entrance";
constexpr char kNameProperty[] = "hearth-certificate-name";
constexpr char kUriProperty[] = "hearth-certificate-uri";
constexpr absl::string_view kSocket = "socket:";
constexpr absl::string_view kLoopback = "loopback";
constexpr absl::string_view kTls = "tls";

std::string ToString(grpc::string_ref text) {
  return std::string(text.data(), text.size());
}

std::string EntranceText(const Credentials& party) {
  switch (party.entrance) {
    case Entrance::kSocket:
      return absl::StrCat(kSocket, party.uid.has_value()
                                       ? absl::StrCat(*party.uid)
                                       : std::string());
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
         context.FindPropertyValues(kNameProperty)) {
      credentials.certificate_name = ToString(value);
    }
    for (const grpc::string_ref& value :
         context.FindPropertyValues(kUriProperty)) {
      credentials.certificate_uris.push_back(ToString(value));
    }
  }
  const auto [first, last] = metadata.equal_range("authorization");
  // Several are refused like none: it is not clear which one is meant.
  for (auto entry = first; entry != last; ++entry) {
    credentials.authorization =
        entry == first ? ToString(entry->second) : std::string();
  }
  return credentials;
}

}  // namespace

void Door::SetParty(Credentials party) {
  absl::MutexLock lock(&mutex_);
  party_ = std::move(party);
}

void Door::Enter() {
  absl::MutexLock lock(&mutex_);
  ++unmarked_;
}

void Door::LeaveSilently() {
  absl::MutexLock lock(&mutex_);
  --unmarked_;
}

bool Door::IsFree() const {
  absl::MutexLock lock(&mutex_);
  return unmarked_ == 0;
}

void Door::Mark(grpc::AuthContext& context) {
  absl::MutexLock lock(&mutex_);
  if (!context.FindPropertyValues(kEntranceProperty).empty()) return;
  --unmarked_;
  if (!party_.certificate_name.empty()) {
    context.AddProperty(kNameProperty, party_.certificate_name);
  }
  for (const std::string& uri : party_.certificate_uris) {
    context.AddProperty(kUriProperty, uri);
  }
  context.AddProperty(kEntranceProperty, EntranceText(party_));
}

grpc::Status Door::Process(const InputMetadata& metadata,
                           grpc::AuthContext* context, OutputMetadata*,
                           OutputMetadata*) {
  Mark(*context);
  const auto path = metadata.find(":path");
  if (path == metadata.end()) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "a call without a path");
  }
  return ToGrpcStatus(access_.CheckMethod(CredentialsOf(*context, metadata),
                                          ToString(path->second)));
}

Doors::Doors(grpc::ServerBuilder& builder, AccessControl& access, size_t count)
    : doors_(count) {
  for (OneDoor& one : doors_) {
    one.door = std::make_shared<Door>(access);
    // They refuse all that is not a Unix socket.
    const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    credentials->SetAuthMetadataProcessor(one.door);
    one.acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials);
  }
}

absl::Status Doors::Reserve(const Credentials& party) {
  HEARTH_ASSIGN_OR_RETURN(OneDoor * door, Find(party));
  door->is_reserved = true;
  return absl::OkStatus();
}

absl::StatusOr<Doors::OneDoor*> Doors::Find(const Credentials& party) {
  std::vector<std::string> key = {EntranceText(party), party.certificate_name};
  key.insert(key.end(), party.certificate_uris.begin(),
             party.certificate_uris.end());
  OneDoor* free = nullptr;
  for (OneDoor& one : doors_) {
    if (one.key == key) return &one;
    if (!one.is_reserved && one.door->IsFree() &&
        (free == nullptr || one.used < free->used)) {
      free = &one;
    }
  }
  if (free == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        doors_.size(), " different callers have connected and not called yet"));
  }
  free->door->SetParty(party);
  free->key = std::move(key);
  return free;
}

absl::StatusOr<Passage> Doors::Enter(const Credentials& party) {
  HEARTH_ASSIGN_OR_RETURN(OneDoor * one, Find(party));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                 ends) != 0) {
    return ErrnoStatus(errno, "a connection", "socketpair");
  }
  one->used = ++connections_;
  one->door->Enter();
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      parameters;
  parameters.fd = ends[0];
  one->acceptor->HandleNewConnection(&parameters);
  return Passage{.socket = io::Descriptor(ends[1]),
                 .leave = [door = one->door.get()](bool has_asked) {
                   if (!has_asked) door->LeaveSilently();
                 }};
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
