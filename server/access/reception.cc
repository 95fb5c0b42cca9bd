#include "server/access/reception.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/access/caller.h"
#include "server/front/tcp.h"
#include "server/front/wire.h"

namespace hearth::server {
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
