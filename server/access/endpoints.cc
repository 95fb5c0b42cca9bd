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
#include "engine/base/version.h"
#include "engine/io/descriptor.h"
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

// First kMaxMessageLength bytes of `text`, without half a UTF-8 character at
// the end.
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

// Removes a socket that an earlier daemon has left.
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

// Nobody can connect to a socket before it listens, whatever its mode.
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

// IdOfUnknownUsers for this process; nullopt where /proc is missing.
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
    const std::string& path, std::optional<gid_t> group, int type) {
  if (path.size() > kMaxPath) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", path.size(), " bytes are too many for the path of a Unix ",
        "socket, which may have ", kMaxPath));
  }
  HEARTH_RETURN_IF_ERROR(RemoveStale(path));
  const int socket = ::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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

// Properties of a connection that tell its caller. Clients cannot set them.
constexpr char kSourceProperty[] = "hearth-entrance";
constexpr char kNameProperty[] = "hearth-certificate-name";
constexpr char kUriProperty[] = "hearth-certificate-uri";
constexpr absl::string_view kSocket = "socket:";
constexpr absl::string_view kLoopback = "loopback";
constexpr absl::string_view kTls = "tls";
constexpr absl::string_view kPeer = "peer";

std::string ToString(grpc::string_ref text) {
  return std::string(text.data(), text.size());
}

std::string SourceText(const Credentials& caller) {
  switch (caller.source) {
    case CallerSource::kSocket:
      return absl::StrCat(kSocket, caller.uid.has_value()
                                       ? absl::StrCat(*caller.uid)
                                       : std::string());
    case CallerSource::kLoopback:
      return std::string(kLoopback);
    case CallerSource::kTls:
      return std::string(kTls);
    case CallerSource::kPeer:
      return std::string(kPeer);
  }
  return "";
}

Credentials CredentialsOf(
    const grpc::AuthContext& context,
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  Credentials credentials;
  // A connection that no endpoint has marked counts as one over TLS without a
  // certificate.
  for (const grpc::string_ref& value :
       context.FindPropertyValues(kSourceProperty)) {
    const std::string text = ToString(value);
    absl::string_view rest = text;
    if (rest == kLoopback) credentials.source = CallerSource::kLoopback;
    if (rest == kPeer) credentials.source = CallerSource::kPeer;
    if (absl::ConsumePrefix(&rest, kSocket)) {
      credentials.source = CallerSource::kSocket;
      uid_t uid = 0;
      if (absl::SimpleAtoi(rest, &uid)) credentials.uid = uid;
    }
  }
  if (credentials.source == CallerSource::kTls ||
      credentials.source == CallerSource::kPeer) {
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
  // Several authorizations are refused like none: it is not clear which one is
  // meant.
  for (auto entry = first; entry != last; ++entry) {
    credentials.authorization =
        entry == first ? ToString(entry->second) : std::string();
  }
  return credentials;
}

}  // namespace

void Endpoint::SetCaller(Credentials caller) {
  absl::MutexLock lock(&mutex_);
  caller_ = std::move(caller);
}

void Endpoint::Enter() {
  absl::MutexLock lock(&mutex_);
  ++unmarked_;
}

void Endpoint::RemoveSilent() {
  absl::MutexLock lock(&mutex_);
  --unmarked_;
}

bool Endpoint::IsFree() const {
  absl::MutexLock lock(&mutex_);
  return unmarked_ == 0;
}

void Endpoint::Mark(grpc::AuthContext& context) {
  absl::MutexLock lock(&mutex_);
  if (!context.FindPropertyValues(kSourceProperty).empty()) return;
  --unmarked_;
  if (!caller_.certificate_name.empty()) {
    context.AddProperty(kNameProperty, caller_.certificate_name);
  }
  for (const std::string& uri : caller_.certificate_uris) {
    context.AddProperty(kUriProperty, uri);
  }
  context.AddProperty(kSourceProperty, SourceText(caller_));
}

namespace {

// Clients of any version may ask for the daemon's.
constexpr absl::string_view kStatusMethod = "/hearth.v1.Admin/GetStatus";

// Refuses a client of a version that this daemon does not speak with. Programs
// that call the API themselves send no version, and are served.
absl::Status CheckClient(
    const grpc::AuthMetadataProcessor::InputMetadata& metadata,
    absl::string_view method) {
  const auto version = metadata.find("hearth-version");
  if (version == metadata.end() || method == kStatusMethod) {
    return absl::OkStatus();
  }
  return CheckVersions(
      absl::string_view(version->second.data(), version->second.size()),
      kVersion);
}

}  // namespace

grpc::Status Endpoint::Process(const InputMetadata& metadata,
                               grpc::AuthContext* context, OutputMetadata*,
                               OutputMetadata*) {
  Mark(*context);
  const auto path = metadata.find(":path");
  if (path == metadata.end()) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "a call without a path");
  }
  const std::string method = ToString(path->second);
  const absl::Status allowed =
      access_.CheckMethod(CredentialsOf(*context, metadata), method);
  return ToGrpcStatus(allowed.ok() ? CheckClient(metadata, method) : allowed);
}

Endpoints::Endpoints(grpc::ServerBuilder& builder, AccessControl& access,
                     size_t count)
    : slots_(count) {
  for (Slot& one : slots_) {
    one.endpoint = std::make_shared<Endpoint>(access);
    // Local credentials refuse all connections but Unix sockets.
    const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    credentials->SetAuthMetadataProcessor(one.endpoint);
    one.acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials);
  }
}

absl::Status Endpoints::Reserve(const Credentials& caller) {
  HEARTH_ASSIGN_OR_RETURN(Slot * slot, Find(caller));
  slot->is_reserved = true;
  return absl::OkStatus();
}

absl::StatusOr<Endpoints::Slot*> Endpoints::Find(const Credentials& caller) {
  std::vector<std::string> key = {SourceText(caller), caller.certificate_name};
  key.insert(key.end(), caller.certificate_uris.begin(),
             caller.certificate_uris.end());
  Slot* free = nullptr;
  for (Slot& one : slots_) {
    if (one.key == key) return &one;
    if (!one.is_reserved && one.endpoint->IsFree() &&
        (free == nullptr || one.used < free->used)) {
      free = &one;
    }
  }
  if (free == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        slots_.size(), " different callers have connected and not called yet"));
  }
  free->endpoint->SetCaller(caller);
  free->key = std::move(key);
  return free;
}

absl::StatusOr<Bridge> Endpoints::Enter(const Credentials& caller) {
  HEARTH_ASSIGN_OR_RETURN(Slot * one, Find(caller));
  HEARTH_ASSIGN_OR_RETURN(SocketPair ends, NewSocketPair());
  one->used = ++connections_;
  one->endpoint->Enter();
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      parameters;
  parameters.fd = ends.one.Release();
  one->acceptor->HandleNewConnection(&parameters);
  return Bridge{.socket = std::move(ends.other),
                .leave = [endpoint = one->endpoint.get()](bool has_asked) {
                  if (!has_asked) endpoint->RemoveSilent();
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
  return {.source = CallerSource::kSocket, .uid = uid};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Open(
    Options options, grpc::ServerBuilder& builder, AccessControl& access,
    const Clock& clock) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(options), clock));
  HEARTH_RETURN_IF_ERROR(acceptor->Bind());
  HEARTH_RETURN_IF_ERROR(acceptor->OpenEndpoints(builder, access));
  return acceptor;
}

absl::Status Acceptor::Bind() {
  if (options_.peers.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(peer_tls_,
                            TlsServer::Make(options_.peers->tls, clock_));
    HEARTH_ASSIGN_OR_RETURN(io::Descriptor listener,
                            ListenOnTcp(options_.peers->address));
    peers_.emplace(std::move(listener));
    peer_port_ = PortOf(peers_->get());
  }
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

absl::Status Acceptor::OpenEndpoints(grpc::ServerBuilder& builder,
                                     AccessControl& access) {
  if (options_.socket != nullptr) {
    // Mode 0600 admits only the daemon's user and root.
    user_endpoints_ = std::make_unique<Endpoints>(
        builder, access, options_.socket->has_group() ? kMaxUsers : 2);
    HEARTH_RETURN_IF_ERROR(user_endpoints_->Reserve(OfUser(geteuid())));
    HEARTH_RETURN_IF_ERROR(user_endpoints_->Reserve(OfUser(0)));
  }
  if (peers_.has_value()) {
    peer_endpoints_ =
        std::make_unique<Endpoints>(builder, access, kMaxCertificates);
  }
  if (!tcp_.has_value()) return absl::OkStatus();
  const bool has_certificates =
      options_.tls.has_value() && !options_.tls->client_ca.empty();
  tcp_endpoints_ = std::make_unique<Endpoints>(
      builder, access, has_certificates ? kMaxCertificates : 1);
  return absl::OkStatus();
}

absl::Status Acceptor::Start() {
  LimiterOptions tls_limits = options_.limits;
  tls_limits.openings = kHandshakes;
  tls_limits.openings_per_address = kHandshakesPerAddress;
  if (peers_.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(
        peer_limiter_,
        ConnectionLimiter::Start(
            *std::move(peers_), options_.peers->address, tls_limits,
            [this](int connection) { return ReceivePeer(connection); },
            clock_));
  }
  if (tcp_.has_value()) {
    const LimiterOptions& limits =
        tls_ != nullptr ? tls_limits : options_.limits;
    HEARTH_ASSIGN_OR_RETURN(
        tcp_limiter_,
        ConnectionLimiter::Start(
            *std::move(tcp_), options_.tcp_address, limits,
            [this](int connection) { return ReceiveAddress(connection); },
            clock_));
  }
  if (options_.socket == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(io::Descriptor listener, options_.socket->Listen());
  HEARTH_ASSIGN_OR_RETURN(
      user_limiter_,
      ConnectionLimiter::Start(
          std::move(listener), "the Unix socket", options_.limits,
          [this](int connection) { return ReceiveUser(connection); }, clock_));
  return absl::OkStatus();
}

absl::StatusOr<Visitor> Acceptor::ReceiveUser(int connection) {
  HEARTH_ASSIGN_OR_RETURN(const uid_t uid, options_.socket->UserOf(connection));
  const std::string address = absl::StrCat("user ", uid);
  return Visitor{
      .address = address,
      .wire = NewPlainWire(connection),
      .guard = user_guards_.NewGuard(address),
      .enter = [this, uid] { return user_endpoints_->Enter(OfUser(uid)); }};
}

absl::StatusOr<Visitor> Acceptor::ReceiveAddress(int connection) {
  HEARTH_ASSIGN_OR_RETURN(const std::string address, ReceiveTcp(connection));
  Visitor visitor = {
      .address = address,
      .wire = nullptr,
      .guard = tcp_guards_.NewGuard(address),
      .enter = [this] {
        return tcp_endpoints_->Enter({.source = CallerSource::kLoopback});
      }};
  if (tls_ == nullptr) {
    visitor.wire = NewPlainWire(connection);
    return visitor;
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<TlsWire> wire,
                          tls_->NewWire(connection));
  visitor.enter = [this, tls = wire.get()] {
    return tcp_endpoints_->Enter(tls->PeerCredentials());
  };
  visitor.wire = std::move(wire);
  return visitor;
}

absl::StatusOr<Visitor> Acceptor::ReceivePeer(int connection) {
  HEARTH_ASSIGN_OR_RETURN(const std::string address, ReceiveTcp(connection));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<TlsWire> wire,
                          peer_tls_->NewWire(connection));
  auto guard = std::make_unique<PeerGuard>(peer_guards_.NewGuard(address));
  Visitor visitor;
  visitor.address = address;
  visitor.enter = [this, tls = wire.get(),
                   guard = guard.get()]() -> absl::StatusOr<Bridge> {
    Credentials peer = tls->PeerCredentials();
    peer.source = CallerSource::kPeer;
    HEARTH_ASSIGN_OR_RETURN(const std::string member, MemberOf(peer));
    HEARTH_RETURN_IF_ERROR(options_.peers->check_member(member));
    if (!guard->is_link()) return peer_endpoints_->Enter(peer);
    HEARTH_ASSIGN_OR_RETURN(SocketPair ends, NewSocketPair());
    options_.peers->take_link(member, std::move(ends.one));
    return Bridge{.socket = std::move(ends.other)};
  };
  visitor.wire = std::move(wire);
  visitor.guard = std::move(guard);
  return visitor;
}

void Acceptor::StopListening() {
  for (const auto* limiter : {&user_limiter_, &tcp_limiter_, &peer_limiter_}) {
    if (*limiter != nullptr) (*limiter)->StopListening();
  }
}

void Acceptor::Stop(absl::Duration patience) {
  for (const auto* limiter : {&user_limiter_, &tcp_limiter_, &peer_limiter_}) {
    if (*limiter != nullptr) (*limiter)->Stop(patience);
  }
}

}  // namespace hearth::server
