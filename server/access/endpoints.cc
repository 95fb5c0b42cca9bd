#include "server/access/endpoints.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/security/server_credentials.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"
#include "engine/base/trace_parent.h"
#include "engine/io/descriptor.h"
#include "server/access/caller.h"
#include "server/front/sockets.h"

// google.rpc.Status is written field by field, because Debian packages its
// .proto nowhere:
//
//   Status { int32 code = 1; string message = 2; repeated Any details = 3; }

namespace hearth::server {

namespace {

using google::protobuf::internal::WireFormatLite;

// A serialized google.rpc.Status; empty if `status` has no payloads.
std::string SerializeDetails(const absl::Status& status,
                             const std::string& message) {
  std::string bytes;
  bool has_payload = false;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    WireFormatLite::WriteInt32(1, static_cast<int>(status.code()), &out);
    WireFormatLite::WriteString(2, message, &out);
    status.ForEachPayload(
        [&](absl::string_view type_url, const absl::Cord& payload) {
          google::protobuf::Any any;
          any.set_type_url(std::string(type_url));
          any.set_value(std::string(payload));
          WireFormatLite::WriteBytes(3, any.SerializeAsString(), &out);
          has_payload = true;
        });
  }
  return has_payload ? bytes : std::string();
}

// The first bytes of `text`, without half a UTF-8 character at the end.
std::string Cut(absl::string_view text) {
  if (text.size() <= kMaxMessageLength) return std::string(text);
  size_t length = kMaxMessageLength;
  while (length > 0 &&
         (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) {
    --length;
  }
  return std::string(text.substr(0, length)) + "...";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Cut(status.message());
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      SerializeDetails(status, message));
}

namespace {

constexpr int kBacklog = 1024;

// Removes a socket that a daemon before has left.
absl::Status RemoveStale(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : ErrnoStatus(errno, path, "stat");
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is in the way: it is not a socket"));
  }
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, path, "unlink");
}

// Until it listens, nobody can connect to it, whatever its mode.
absl::Status BindTo(int socket, const std::string& path,
                    std::optional<gid_t> group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return ErrnoStatus(errno, path, "bind");
  }
  if (group.has_value() &&
      chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return ErrnoStatus(errno, path, "give it to the group");
  }
  if (chmod(path.c_str(), group.has_value() ? 0660 : 0600) != 0) {
    return ErrnoStatus(errno, path, "chmod");
  }
  return absl::OkStatus();
}

// As IdOfUnknownUsers, of this process. Where /proc is not there, nothing is
// known of any user namespace.
std::optional<uid_t> IdOfUnknownUsersHere() {
  std::ifstream map_file("/proc/self/uid_map");
  std::ifstream overflow_file("/proc/sys/kernel/overflowuid");
  const std::string map{std::istreambuf_iterator<char>(map_file), {}};
  uid_t overflow = 0;
  if (map.empty() || !(overflow_file >> overflow)) return std::nullopt;
  return IdOfUnknownUsers(map, overflow);
}

}  // namespace

std::optional<uid_t> IdOfUnknownUsers(const std::string& uid_map,
                                      uid_t overflow) {
  std::istringstream ranges(uid_map);
  for (uint64_t first, outside, count; ranges >> first >> outside >> count;) {
    if (overflow >= first && overflow - first < count) return std::nullopt;
  }
  return overflow;
}

absl::StatusOr<std::unique_ptr<SocketListener>> SocketListener::Bind(
    const std::string& path, std::optional<gid_t> group) {
  if (path.size() > kMaxPath) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", path.size(), " bytes are too many for the path of a Unix ",
        "socket, which may have ", kMaxPath));
  }
  HEARTH_RETURN_IF_ERROR(RemoveStale(path));
  const int socket =
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return ErrnoStatus(errno, path, "socket");
  std::unique_ptr<SocketListener> listener(new SocketListener(
      path, socket, group.has_value(), IdOfUnknownUsersHere()));
  HEARTH_RETURN_IF_ERROR(BindTo(socket, path, group));
  return listener;
}

SocketListener::~SocketListener() { unlink(path_.c_str()); }

absl::StatusOr<io::Descriptor> SocketListener::Listen() {
  if (listen(socket_.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, path_, "listen");
  }
  return std::move(socket_);
}

absl::StatusOr<uid_t> SocketListener::UserOf(int connection) const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus(errno, path_, "tell who connects");
  }
  if (peer.uid == unknown_users_) {
    return absl::PermissionDeniedError(
        "the daemon's user namespace does not know its user");
  }
  return peer.uid;
}

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

namespace {

Credentials OfUser(uid_t uid) {
  return {.entrance = Entrance::kSocket, .uid = uid};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Reception>> Reception::Open(
    Options options, grpc::ServerBuilder& builder, AccessControl& access,
    const Clock& clock) {
  std::unique_ptr<Reception> reception(
      new Reception(std::move(options), clock));
  HEARTH_RETURN_IF_ERROR(reception->Bind());
  HEARTH_RETURN_IF_ERROR(reception->OpenDoors(builder, access));
  return reception;
}

absl::Status Reception::Bind() {
  if (options_.tcp_address.empty()) return absl::OkStatus();
  if (options_.tls.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(tls_, TlsServer::Make(*options_.tls, clock_));
  }
  HEARTH_ASSIGN_OR_RETURN(io::Descriptor listener,
                          ListenOnTcp(options_.tcp_address));
  tcp_.emplace(std::move(listener));
  port_ = PortOf(tcp_->get());
  return absl::OkStatus();
}

absl::Status Reception::OpenDoors(grpc::ServerBuilder& builder,
                                  AccessControl& access) {
  if (options_.socket != nullptr) {
    // Mode 0600 lets nobody through but its user and root.
    user_doors_ = std::make_unique<Doors>(
        builder, access, options_.socket->has_group() ? kMaxUsers : 2);
    HEARTH_RETURN_IF_ERROR(user_doors_->Reserve(OfUser(geteuid())));
    HEARTH_RETURN_IF_ERROR(user_doors_->Reserve(OfUser(0)));
  }
  if (!tcp_.has_value()) return absl::OkStatus();
  const bool has_certificates =
      options_.tls.has_value() && !options_.tls->client_ca.empty();
  tcp_doors_ = std::make_unique<Doors>(builder, access,
                                       has_certificates ? kMaxCertificates : 1);
  return absl::OkStatus();
}

absl::Status Reception::Start() {
  if (tcp_.has_value()) {
    FrontLimits limits = options_.limits;
    if (tls_ != nullptr) {
      limits.openings = kHandshakes;
      limits.openings_of_party = kHandshakesOfParty;
    }
    HEARTH_ASSIGN_OR_RETURN(
        tcp_front_,
        Front::Start(
            *std::move(tcp_), options_.tcp_address, limits,
            [this](int connection) { return ReceiveAddress(connection); },
            clock_));
  }
  if (options_.socket == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(io::Descriptor listener, options_.socket->Listen());
  HEARTH_ASSIGN_OR_RETURN(
      user_front_,
      Front::Start(
          std::move(listener), "the Unix socket", options_.limits,
          [this](int connection) { return ReceiveUser(connection); }, clock_));
  return absl::OkStatus();
}

absl::StatusOr<Visitor> Reception::ReceiveUser(int connection) {
  HEARTH_ASSIGN_OR_RETURN(const uid_t uid, options_.socket->UserOf(connection));
  const std::string party = absl::StrCat("user ", uid);
  return Visitor{
      .party = party,
      .wire = NewPlainWire(connection),
      .guard = user_guards_.NewGuard(party),
      .enter = [this, uid] { return user_doors_->Enter(OfUser(uid)); }};
}

absl::StatusOr<Visitor> Reception::ReceiveAddress(int connection) {
  HEARTH_ASSIGN_OR_RETURN(const std::string party, ReceiveTcp(connection));
  Visitor visitor = {
      .party = party,
      .wire = nullptr,
      .guard = tcp_guards_.NewGuard(party),
      .enter = [this] {
        return tcp_doors_->Enter({.entrance = Entrance::kLoopback});
      }};
  if (tls_ == nullptr) {
    visitor.wire = NewPlainWire(connection);
    return visitor;
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<TlsWire> wire,
                          tls_->NewWire(connection));
  visitor.enter = [this, tls = wire.get()] {
    return tcp_doors_->Enter(tls->Party());
  };
  visitor.wire = std::move(wire);
  return visitor;
}

void Reception::StopListening() {
  for (const auto* front : {&user_front_, &tcp_front_}) {
    if (*front != nullptr) (*front)->StopListening();
  }
}

void Reception::Stop(absl::Duration patience) {
  for (const auto* front : {&user_front_, &tcp_front_}) {
    if (*front != nullptr) (*front)->Stop(patience);
  }
}

}  // namespace hearth::server
