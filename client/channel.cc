#include "client/channel.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/hearth_client.h"
#include "client/rpc_status.h"

namespace hearth::client {
namespace {

// A job of 100,000 epochs has a report of each.
constexpr int kMaxReceivedBytes = 256 << 20;
constexpr int kReconnectMs = 100;
constexpr int kMaxReconnectMs = 1000;
constexpr int kConnectMs = 10000;
constexpr std::chrono::milliseconds kAwaitConnection{200};
constexpr std::chrono::milliseconds kNoticeBreak{100};

// While a call is in progress and nothing comes, the daemon is asked after the
// first time whether it is there, and has the second to answer.
constexpr int kKeepaliveMs = 4000;
constexpr int kKeepaliveTimeoutMs = 4000;

constexpr char kUnreachablePayload[] = "hearth/unreachable";
constexpr char kSilentPayload[] = "hearth/silent";

// Only the message tells that the daemon was given up for its silence.
bool WasSilent(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         absl::StrContains(status.error_message(), "keepalive");
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const ClientOptions& options) {
  if (options.ca.empty() || absl::StartsWith(options.server, "unix:")) {
    return grpc::InsecureChannelCredentials();
  }
  return grpc::SslCredentials({.pem_root_certs = options.ca,
                               .pem_private_key = options.key,
                               .pem_cert_chain = options.certificate});
}

// Whether the connection outlives a call that ended just now. gRPC ends the
// calls over a connection that breaks a moment before it says that it is down.
bool IsConnected(grpc::Channel& channel) {
  return channel.GetState(false) == GRPC_CHANNEL_READY &&
         !channel.WaitForStateChange(
             GRPC_CHANNEL_READY,
             std::chrono::system_clock::now() + kNoticeBreak);
}

}  // namespace

std::shared_ptr<grpc::Channel> NewChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  // By its name a pause; in truth the time that an attempt to connect has.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // However long there are no events.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The daemon is on this machine or on the local network.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Clients of one process each have their own connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.server, CredentialsOf(options),
                                   arguments);
}

void AwaitConnection(grpc::Channel& channel) {
  if (channel.GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  channel.WaitForConnected(std::chrono::system_clock::now() + kAwaitConnection);
}

absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server) {
  const absl::Status answer = RpcStatus(
      status.error_code(), status.error_message(), status.error_details());
  const bool was_silent = WasSilent(status);
  if (was_silent ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    absl::Status silent = UnreachableError(
        absl::StrCat("hearthd at ", server, " does not answer"));
    if (was_silent) silent.SetPayload(kSilentPayload, absl::Cord());
    return silent;
  }
  // A daemon that drains or stops answers UNAVAILABLE over a connection that
  // is up.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      !IsConnected(channel)) {
    return UnreachableError(absl::StrCat("cannot reach hearthd at ", server,
                                         ": ", std::string(answer.message())));
  }
  if (absl::IsUnimplemented(answer)) {
    return absl::UnimplementedError(
        absl::StrCat("no hearthd of this version at ", server, ": ",
                     std::string(answer.message())));
  }
  return answer;
}

absl::Status UnreachableError(const std::string& message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kUnreachablePayload, absl::Cord());
  return status;
}

absl::Duration SilenceBefore(const absl::Status& status) {
  return status.GetPayload(kSilentPayload).has_value()
             ? absl::Milliseconds(kKeepaliveMs + kKeepaliveTimeoutMs)
             : absl::ZeroDuration();
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachablePayload).has_value();
}

}  // namespace hearth::client
